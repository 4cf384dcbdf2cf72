SELECT * FROM pay_gate WHERE system_identifier <> instance_system_identifier() OR timeline_id <> 1 OR closed_by IS NOT NULL;
SELECT got FROM pg_temp.try($q$UPDATE payout SET state = 'CLAIMED', claimed_by = 'w', claim_token = 1001 WHERE idempotency_key = 'k1'$q$) got WHERE got <> '1';
-- Closed by hand: k5's resolution is older than that, and does not count.
UPDATE pay_gate SET closed_by = 'ops', closed_at = now() + interval '1 ms', closed_reason = 'test';
SELECT * FROM (VALUES
  ('claim',    pg_temp.try($q$UPDATE payout SET state = 'CLAIMED', claimed_by = 'w', claim_token = 1001 WHERE idempotency_key = 'k1'$q$), '55000 pay_gate'),
  ('takeover', pg_temp.try($q$UPDATE payout SET claim_token = 1001 WHERE idempotency_key = 'k5'$q$), '55000 pay_gate'),
  ('give up',  pg_temp.try($q$UPDATE payout SET state = 'FAILED' WHERE idempotency_key = 'k1'$q$), '1'),
  ('gate gone', pg_temp.try($q$DELETE FROM pay_gate$q$), '42501 pay_gate_kept'),
  ('second gate', pg_temp.try($q$INSERT INTO pay_gate (system_identifier, timeline_id) VALUES (1, 1)$q$), '23505 pay_gate_pkey'),
  ('another instance', pg_temp.try($q$UPDATE pay_gate SET system_identifier = 1$q$), '23514 pay_gate_guard')
) v (what, got, want) WHERE got IS DISTINCT FROM want;
UPDATE pay_gate SET closed_by = NULL, closed_at = NULL, closed_reason = NULL;
