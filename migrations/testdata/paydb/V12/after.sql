-- k1 is PENDING; k3 in flight; k5 timed out. The mark of a1 is 74.
SELECT * FROM (VALUES
  ('not for the rail',   pg_temp.try($q$INSERT INTO rail_submission (submission_id, payout_id, idempotency_key, presented_token, outcome, resolved_at) VALUES (gen_random_uuid(),  pg_temp.id('b', 1), 'k1', 74, NULL, NULL)$q$), '23514 rail_submission_new_guard'),
  ('another key',        pg_temp.try($q$INSERT INTO rail_submission (submission_id, payout_id, idempotency_key, presented_token, outcome, resolved_at) VALUES (gen_random_uuid(),  pg_temp.id('b', 5), 'k4', 74, 'FENCED', now())$q$), '23514 rail_submission_new_guard'),
  ('born acknowledged',  pg_temp.try($q$INSERT INTO rail_submission (submission_id, payout_id, idempotency_key, presented_token, outcome, resolved_at) VALUES (gen_random_uuid(),  pg_temp.id('b', 2), 'k2', 74, 'ACKED', now())$q$), '23514 rail_submission_new_guard'),
  ('born fenced',        pg_temp.try($q$INSERT INTO rail_submission (submission_id, payout_id, idempotency_key, presented_token, outcome, resolved_at) VALUES (gen_random_uuid(),  pg_temp.id('b', 5), 'k5', 74, 'FENCED', now())$q$), '1'),
  ('slot taken',         pg_temp.try($q$INSERT INTO rail_submission (submission_id, payout_id, idempotency_key, presented_token, outcome, resolved_at) VALUES (gen_random_uuid(),  pg_temp.id('b', 4), 'k4', 99, NULL, NULL)$q$), '23505 rail_submission_attempt_uidx'),
  ('slot reopened',      pg_temp.try($q$UPDATE rail_submission SET outcome = 'FENCED', resolved_at = now() WHERE outcome IS NULL$q$), '23514 rail_submission_guard'),
  ('acknowledged twice', pg_temp.try($q$UPDATE rail_submission SET outcome = 'REJECTED' WHERE rail_reference = 'r4'$q$), '23514 rail_submission_guard'),
  ('forgotten',          pg_temp.try($q$UPDATE rail_submission SET outcome = NULL, resolved_at = NULL WHERE outcome = 'TIMEOUT'$q$), '23514 rail_submission_guard'),
  ('settled late',       pg_temp.try($q$UPDATE rail_submission SET outcome = 'ACKED', rail_reference = 'r5' WHERE outcome = 'TIMEOUT'$q$), '1'),
  ('gone',               pg_temp.try($q$DELETE FROM rail_submission WHERE outcome IS NULL$q$), '42501 rail_submission_kept')
) v (what, got, want) WHERE got IS DISTINCT FROM want;
SELECT count(*) FROM rail_submission HAVING count(*) <> 5;
