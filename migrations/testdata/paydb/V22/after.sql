SELECT * FROM (VALUES
  ('posted without legs', pg_temp.try($q$UPDATE payout SET state = 'POSTED' WHERE payout_id = pg_temp.id('b', 4); SET CONSTRAINTS ALL IMMEDIATE$q$), '23514 posting_guard'),
  ('a whole posting', pg_temp.try($q$INSERT INTO ledger_entry (entry_id, payout_id, account_id, direction, amount_minor, fence) VALUES (gen_random_uuid(), pg_temp.id('b', 4), pg_temp.id('a', 1), 'DEBIT', 100, 73), (gen_random_uuid(), pg_temp.id('b', 4), pg_temp.id('c', 1), 'CREDIT', 100, 73); UPDATE payout SET state = 'POSTED' WHERE payout_id = pg_temp.id('b', 4); SET CONSTRAINTS ALL IMMEDIATE$q$), '0')
) v (what, got, want) WHERE got IS DISTINCT FROM want;
-- What broke the rule before is as it was.
SELECT state FROM payout WHERE idempotency_key = 'old5' AND state <> 'POSTED';
-- Twenty-two versions later every row that was there is there.
SELECT count(*) FROM payout HAVING count(*) <> 14;
SELECT count(*) FROM ledger_entry HAVING count(*) <> 4;
SELECT count(*) FROM rail_submission HAVING count(*) <> 5;
