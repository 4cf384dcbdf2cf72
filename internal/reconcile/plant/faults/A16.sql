-- The payout is in a currency that its account does not hold. Its credit went to that
-- currency's clearing.
-- @paydb
SELECT pg_temp.move(l.account_id, -l.amount_minor), pg_temp.move(s.foreign_clearing, l.amount_minor)
  FROM scene s JOIN ledger_entry l ON l.payout_id = s.p3 AND l.direction = 'CREDIT';
UPDATE ledger_entry l SET account_id = s.foreign_clearing FROM scene s WHERE l.payout_id = s.p3 AND l.direction = 'CREDIT';
UPDATE payout SET currency = foreign_currency FROM scene WHERE payout_id = p3;
-- @finding
t3, account, p3, NULL
