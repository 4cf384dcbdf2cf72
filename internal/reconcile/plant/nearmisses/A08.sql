-- Credited to another shard of the currency: any will do.
-- @paydb
SELECT pg_temp.move(l.account_id, -l.amount_minor), pg_temp.move(s.spare, l.amount_minor)
  FROM scene s JOIN ledger_entry l ON l.payout_id = s.p3 AND l.direction = 'CREDIT';
UPDATE ledger_entry l SET account_id = s.spare FROM scene s WHERE l.payout_id = s.p3 AND l.direction = 'CREDIT';
