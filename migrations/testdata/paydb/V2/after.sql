INSERT INTO ledger_entry (entry_id, payout_id, account_id, direction, amount_minor, fence) VALUES
  (pg_temp.id('d', 1), pg_temp.id('b', 6), pg_temp.id('a', 1), 'DEBIT',  100, 70),
  (pg_temp.id('d', 2), pg_temp.id('b', 6), pg_temp.id('c', 1), 'CREDIT', 100, 70);
INSERT INTO rail_submission (submission_id, payout_id, idempotency_key, presented_token, outcome, rail_reference, resolved_at) VALUES
  (pg_temp.id('e', 3), pg_temp.id('b', 3), 'k3', 72, NULL,      NULL, NULL),
  (pg_temp.id('e', 4), pg_temp.id('b', 4), 'k4', 73, 'ACKED',   'r4', now()),
  (pg_temp.id('e', 5), pg_temp.id('b', 5), 'k5', 74, 'TIMEOUT', NULL, now()),
  (pg_temp.id('e', 6), pg_temp.id('b', 6), 'k6', 70, 'ACKED',   'r6', now()),
  (pg_temp.id('e', 7), pg_temp.id('b', 6), 'k6', 60, 'FENCED',  NULL, now());
INSERT INTO rail_high_water (account_id, highest_token) VALUES (pg_temp.id('a', 1), 74), (pg_temp.id('a', 2), 9);

SELECT * FROM (VALUES
  ('same leg twice',        pg_temp.try($q$INSERT INTO ledger_entry SELECT gen_random_uuid(), payout_id, account_id, direction, amount_minor, fence FROM ledger_entry$q$), '23505 ledger_leg_uq'),
  ('resolved but unknown',  pg_temp.try($q$UPDATE rail_submission SET resolved_at = now() WHERE outcome IS NULL$q$), '23514 rail_resolved_ck'),
  ('mark of no account',    pg_temp.try($q$INSERT INTO rail_high_water VALUES (pg_temp.id('f', 1), 1)$q$),           '23503 rail_high_water_account_id_fkey')
) v (what, got, want) WHERE got IS DISTINCT FROM want;
