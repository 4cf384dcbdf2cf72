UPDATE lock_gate SET closed_by = NULL, closed_at = NULL, closed_reason = NULL
 WHERE closed_by IS NOT NULL;
