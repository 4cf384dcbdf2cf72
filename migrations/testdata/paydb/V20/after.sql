SELECT * FROM (VALUES
  ('failed in flight',          pg_temp.try($q$UPDATE payout SET state = 'FAILED' WHERE payout_id = pg_temp.id('b', 3)$q$), '23514 payout_rail_guard'),
  ('acknowledged in flight',    pg_temp.try($q$UPDATE payout SET state = 'RAIL_ACKED' WHERE payout_id = pg_temp.id('b', 3)$q$), '23514 payout_rail_guard'),
  ('failed after the ack',      pg_temp.try($q$UPDATE rail_submission SET outcome = 'ACKED', resolved_at = now() WHERE idempotency_key = 'k3'; UPDATE payout SET state = 'FAILED' WHERE payout_id = pg_temp.id('b', 3)$q$), '23514 payout_rail_guard'),
  ('failed and paid',           pg_temp.try($q$UPDATE payout SET state = 'FAILED' WHERE payout_id = pg_temp.id('b', 5)$q$), '23514 payout_rail_guard'),
  ('abandoned and paid',        pg_temp.try($q$UPDATE payout SET state = 'ABANDONED' WHERE payout_id = pg_temp.id('b', 5)$q$), '23514 payout_rail_guard'),
  ('unknown without a question', pg_temp.try($q$UPDATE payout SET state = 'RAIL_AMBIGUOUS' WHERE payout_id = pg_temp.id('b', 12)$q$), '23514 payout_rail_guard'),
  ('failed before the rail',    pg_temp.try($q$UPDATE payout SET state = 'FAILED' WHERE payout_id = pg_temp.id('b', 12)$q$), '1'),
  ('acknowledged, fencing off', pg_temp.try($q$UPDATE payout SET state = 'RAIL_ACKED' WHERE payout_id = pg_temp.id('b', 12)$q$), '1'),
  ('asked again',               pg_temp.try($q$INSERT INTO rail_submission (submission_id, payout_id, idempotency_key, presented_token) VALUES (gen_random_uuid(), pg_temp.id('b', 11), 'old1', 2000)$q$), '23514 rail_submission_state'),
  ('never claimed it',          pg_temp.try($q$UPDATE rail_high_water SET highest_token = 2001 WHERE highest_token = 2000; INSERT INTO rail_submission (submission_id, payout_id, idempotency_key, presented_token) VALUES (gen_random_uuid(), pg_temp.id('b', 12), 'old2', 2001)$q$), '23514 rail_submission_state'),
  ('its own attempt',           pg_temp.try($q$INSERT INTO rail_submission (submission_id, payout_id, idempotency_key, presented_token) VALUES (gen_random_uuid(), pg_temp.id('b', 12), 'old2', 2000)$q$), '1')
) v (what, got, want) WHERE got IS DISTINCT FROM want;
-- What broke the rule before is as it was.
SELECT state FROM payout WHERE idempotency_key = 'old1' AND state <> 'RAIL_AMBIGUOUS';
-- old1 can be settled, by evidence alone.
SELECT * FROM (VALUES
  ('no evidence',  pg_temp.try($q$UPDATE payout SET state = 'RAIL_ACKED' WHERE idempotency_key = 'old1'$q$), '23514 payout_rail_guard'),
  ('found paid',   pg_temp.try($q$INSERT INTO payout_resolution (payout_id, source, verdict, evidence, operator, reason) VALUES (pg_temp.id('b', 11), 'rail', 'PAID', '{"a": 1}', 'o', 'r'); UPDATE payout SET state = 'RAIL_ACKED' WHERE idempotency_key = 'old1'$q$), '1'),
  ('not found',    pg_temp.try($q$INSERT INTO payout_resolution (payout_id, source, verdict, evidence, operator, reason) VALUES (pg_temp.id('b', 11), 'rail', 'NOT_FOUND', '{"a": 1}', 'o', 'r'); UPDATE payout SET state = 'FAILED' WHERE idempotency_key = 'old1'$q$), '1')
) v (what, got, want) WHERE got IS DISTINCT FROM want;
