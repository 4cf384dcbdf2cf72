-- The debit was taken from a stranger, and the payer kept its money and its fence.
-- @paydb
SELECT pg_temp.account(x1, currency, 100000000, NULL) FROM scene;
UPDATE account SET fence = t3 FROM scene WHERE account_id = x1;
SELECT pg_temp.move(s.account, l.amount_minor), pg_temp.move(s.x1, -l.amount_minor)
  FROM scene s JOIN ledger_entry l ON l.payout_id = s.p3 AND l.direction = 'DEBIT';
UPDATE account SET fence = t2 FROM scene WHERE account_id = account;
UPDATE ledger_entry l SET account_id = s.x1 FROM scene s WHERE l.payout_id = s.p3 AND l.direction = 'DEBIT';
-- @finding
t3, NULL, p3, NULL
