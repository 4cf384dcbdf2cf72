-- Closed by hand, on this instance and timeline.
-- @lockdb
UPDATE lock_gate SET closed_by = 'oncall@example', closed_at = now(), closed_reason = 'maintenance';
