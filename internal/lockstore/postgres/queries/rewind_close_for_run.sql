-- Beside a freeze, and over a fast-forward that was cut off. A row that was gone
-- comes back as one that was opened nowhere.
INSERT INTO lock_gate (system_identifier, timeline_id, run_id, run_by, run_at, run_reason)
VALUES (0, 0, :run_id, :operator, now(), :reason)
ON CONFLICT (one) DO UPDATE
   SET run_id = EXCLUDED.run_id, run_by = EXCLUDED.run_by, run_at = EXCLUDED.run_at, run_reason = EXCLUDED.run_reason;
