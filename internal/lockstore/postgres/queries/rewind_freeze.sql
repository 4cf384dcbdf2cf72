UPDATE lock_gate SET closed_by = :operator, closed_at = now(), closed_reason = :reason
 WHERE closed_by IS NULL;
