-- Payout b4 is RAIL_ACKED: 100 from a1, claimed by 73.
SELECT * FROM (VALUES
  ('its debit',        pg_temp.try($q$INSERT INTO ledger_entry (entry_id, payout_id, account_id, direction, amount_minor, fence) VALUES (gen_random_uuid(),  pg_temp.id('b', 4), pg_temp.id('a', 1), 'DEBIT', 100, 73)$q$), '1'),
  ('its credit',       pg_temp.try($q$INSERT INTO ledger_entry (entry_id, payout_id, account_id, direction, amount_minor, fence) VALUES (gen_random_uuid(),  pg_temp.id('b', 4), pg_temp.id('c', 1), 'CREDIT', 100, 73)$q$), '1'),
  ('another amount',   pg_temp.try($q$INSERT INTO ledger_entry (entry_id, payout_id, account_id, direction, amount_minor, fence) VALUES (gen_random_uuid(),  pg_temp.id('b', 4), pg_temp.id('a', 1), 'DEBIT', 70000, 73)$q$), '23514 ledger_entry_guard'),
  ('another payer',    pg_temp.try($q$INSERT INTO ledger_entry (entry_id, payout_id, account_id, direction, amount_minor, fence) VALUES (gen_random_uuid(),  pg_temp.id('b', 4), pg_temp.id('a', 2), 'DEBIT', 100, 73)$q$), '23514 ledger_entry_guard'),
  ('another token',    pg_temp.try($q$INSERT INTO ledger_entry (entry_id, payout_id, account_id, direction, amount_minor, fence) VALUES (gen_random_uuid(),  pg_temp.id('b', 4), pg_temp.id('a', 1), 'DEBIT', 100, 99)$q$), '23514 ledger_entry_guard'),
  ('payer credited',   pg_temp.try($q$INSERT INTO ledger_entry (entry_id, payout_id, account_id, direction, amount_minor, fence) VALUES (gen_random_uuid(),  pg_temp.id('b', 4), pg_temp.id('a', 1), 'CREDIT', 100, 73)$q$), '23514 ledger_entry_guard'),
  ('dollars cleared',  pg_temp.try($q$INSERT INTO ledger_entry (entry_id, payout_id, account_id, direction, amount_minor, fence) VALUES (gen_random_uuid(),  pg_temp.id('b', 4), pg_temp.id('c', 2), 'CREDIT', 100, 73)$q$), '23514 ledger_entry_guard'),
  ('not acknowledged', pg_temp.try($q$INSERT INTO ledger_entry (entry_id, payout_id, account_id, direction, amount_minor, fence) VALUES (gen_random_uuid(),  pg_temp.id('b', 3), pg_temp.id('a', 1), 'DEBIT', 100, 72)$q$), '23514 ledger_entry_guard'),
  ('a leg changed',    pg_temp.try($q$UPDATE ledger_entry SET amount_minor = 1 WHERE direction = 'DEBIT'$q$), '42501 ledger_entry_append_only'),
  ('a leg gone',       pg_temp.try($q$DELETE FROM ledger_entry WHERE direction = 'DEBIT'$q$), '42501 ledger_entry_append_only')
) v (what, got, want) WHERE got IS DISTINCT FROM want;
SELECT count(*) FROM ledger_entry HAVING count(*) <> 2;
