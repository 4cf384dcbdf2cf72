-- b4 is RAIL_ACKED under 73, b6 POSTED with both legs. Legs of old3, which is RAIL_ACKED,
-- and of old4, which is POSTED with one: from before, and left as they are. What is
-- looked at when a transaction ends is looked at here by SET CONSTRAINTS.
INSERT INTO payout (payout_id, account_id, amount_minor, currency, idempotency_key)
SELECT pg_temp.id('b', 10 + n), pg_temp.id('a', 2), 100, 'EUR', 'old' || n FROM generate_series(3, 4) n;
UPDATE payout SET state = 'CLAIMED', claimed_by = 'w', claim_token = 2100 WHERE idempotency_key IN ('old3', 'old4');
UPDATE payout SET state = 'RAIL_SUBMITTED', attempt_count = 1 WHERE idempotency_key IN ('old3', 'old4');
UPDATE payout SET state = 'RAIL_ACKED' WHERE idempotency_key IN ('old3', 'old4');
UPDATE payout SET state = 'POSTED' WHERE idempotency_key = 'old4';
INSERT INTO ledger_entry (entry_id, payout_id, account_id, direction, amount_minor, fence)
SELECT pg_temp.id('d', 10 + n), pg_temp.id('b', 10 + n), pg_temp.id('a', 2), 'DEBIT', 100, 2100 FROM generate_series(3, 4) n;
SELECT * FROM (VALUES
  ('a debit alone',  pg_temp.try($q$INSERT INTO ledger_entry (entry_id, payout_id, account_id, direction, amount_minor, fence) VALUES (gen_random_uuid(), pg_temp.id('b', 4), pg_temp.id('a', 1), 'DEBIT', 100, 73); SET CONSTRAINTS ALL IMMEDIATE$q$), '0'),
  ('not posted',     pg_temp.try($q$INSERT INTO ledger_entry (entry_id, payout_id, account_id, direction, amount_minor, fence) VALUES (gen_random_uuid(), pg_temp.id('b', 4), pg_temp.id('a', 1), 'DEBIT', 100, 73), (gen_random_uuid(), pg_temp.id('b', 4), pg_temp.id('c', 1), 'CREDIT', 100, 73); SET CONSTRAINTS ALL IMMEDIATE$q$), '0'),
  ('a whole posting', pg_temp.try($q$INSERT INTO ledger_entry (entry_id, payout_id, account_id, direction, amount_minor, fence) VALUES (gen_random_uuid(), pg_temp.id('b', 4), pg_temp.id('a', 1), 'DEBIT', 100, 73), (gen_random_uuid(), pg_temp.id('b', 4), pg_temp.id('c', 1), 'CREDIT', 100, 73); UPDATE payout SET state = 'POSTED' WHERE payout_id = pg_temp.id('b', 4); SET CONSTRAINTS ALL IMMEDIATE$q$), '0')
) v (what, got, want) WHERE got IS DISTINCT FROM want;
