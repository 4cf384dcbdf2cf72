-- b4 is RAIL_ACKED under 73. old5 is POSTED without legs, from before.
INSERT INTO payout (payout_id, account_id, amount_minor, currency, idempotency_key) VALUES (pg_temp.id('b', 15), pg_temp.id('a', 2), 100, 'EUR', 'old5');
UPDATE payout SET state = 'CLAIMED', claimed_by = 'w', claim_token = 2200 WHERE idempotency_key = 'old5';
UPDATE payout SET state = 'RAIL_SUBMITTED', attempt_count = 1 WHERE idempotency_key = 'old5';
UPDATE payout SET state = 'RAIL_ACKED' WHERE idempotency_key = 'old5';
UPDATE payout SET state = 'POSTED' WHERE idempotency_key = 'old5';
SELECT * FROM (VALUES
  ('posted without legs', pg_temp.try($q$UPDATE payout SET state = 'POSTED' WHERE payout_id = pg_temp.id('b', 4); SET CONSTRAINTS ALL IMMEDIATE$q$), '0'),
  ('a whole posting', pg_temp.try($q$INSERT INTO ledger_entry (entry_id, payout_id, account_id, direction, amount_minor, fence) VALUES (gen_random_uuid(), pg_temp.id('b', 4), pg_temp.id('a', 1), 'DEBIT', 100, 73), (gen_random_uuid(), pg_temp.id('b', 4), pg_temp.id('c', 1), 'CREDIT', 100, 73); UPDATE payout SET state = 'POSTED' WHERE payout_id = pg_temp.id('b', 4); SET CONSTRAINTS ALL IMMEDIATE$q$), '0')
) v (what, got, want) WHERE got IS DISTINCT FROM want;
