-- b3 is RAIL_SUBMITTED and its attempt in flight; b5 is RAIL_AMBIGUOUS, its attempt
-- TIMEOUT, its verdict PAID. old1 stands in RAIL_AMBIGUOUS without an attempt, old2 is
-- RAIL_SUBMITTED without one: both from before, and left as they are.
INSERT INTO payout (payout_id, account_id, amount_minor, currency, idempotency_key)
SELECT pg_temp.id('b', 10 + n), pg_temp.id('a', 2), 100, 'EUR', 'old' || n FROM generate_series(1, 2) n;
UPDATE payout SET state = 'CLAIMED', claimed_by = 'w', claim_token = 2000 WHERE idempotency_key LIKE 'old_';
UPDATE payout SET state = 'RAIL_SUBMITTED', attempt_count = 1 WHERE idempotency_key LIKE 'old_';
UPDATE payout SET state = 'RAIL_AMBIGUOUS' WHERE idempotency_key = 'old1';
UPDATE rail_high_water SET highest_token = 2000 WHERE account_id = pg_temp.id('a', 2);
SELECT * FROM (VALUES
  ('failed in flight',          pg_temp.try($q$UPDATE payout SET state = 'FAILED' WHERE payout_id = pg_temp.id('b', 3)$q$), '1'),
  ('acknowledged in flight',    pg_temp.try($q$UPDATE payout SET state = 'RAIL_ACKED' WHERE payout_id = pg_temp.id('b', 3)$q$), '1'),
  ('failed after the ack',      pg_temp.try($q$UPDATE rail_submission SET outcome = 'ACKED', resolved_at = now() WHERE idempotency_key = 'k3'; UPDATE payout SET state = 'FAILED' WHERE payout_id = pg_temp.id('b', 3)$q$), '1'),
  ('failed and paid',           pg_temp.try($q$UPDATE payout SET state = 'FAILED' WHERE payout_id = pg_temp.id('b', 5)$q$), '1'),
  ('abandoned and paid',        pg_temp.try($q$UPDATE payout SET state = 'ABANDONED' WHERE payout_id = pg_temp.id('b', 5)$q$), '1'),
  ('unknown without a question', pg_temp.try($q$UPDATE payout SET state = 'RAIL_AMBIGUOUS' WHERE payout_id = pg_temp.id('b', 12)$q$), '1'),
  ('failed before the rail',    pg_temp.try($q$UPDATE payout SET state = 'FAILED' WHERE payout_id = pg_temp.id('b', 12)$q$), '1'),
  ('acknowledged, fencing off', pg_temp.try($q$UPDATE payout SET state = 'RAIL_ACKED' WHERE payout_id = pg_temp.id('b', 12)$q$), '1'),
  ('asked again',               pg_temp.try($q$INSERT INTO rail_submission (submission_id, payout_id, idempotency_key, presented_token) VALUES (gen_random_uuid(), pg_temp.id('b', 11), 'old1', 2000)$q$), '1'),
  ('never claimed it',          pg_temp.try($q$UPDATE rail_high_water SET highest_token = 2001 WHERE highest_token = 2000; INSERT INTO rail_submission (submission_id, payout_id, idempotency_key, presented_token) VALUES (gen_random_uuid(), pg_temp.id('b', 12), 'old2', 2001)$q$), '1'),
  ('its own attempt',           pg_temp.try($q$INSERT INTO rail_submission (submission_id, payout_id, idempotency_key, presented_token) VALUES (gen_random_uuid(), pg_temp.id('b', 12), 'old2', 2000)$q$), '1')
) v (what, got, want) WHERE got IS DISTINCT FROM want;
