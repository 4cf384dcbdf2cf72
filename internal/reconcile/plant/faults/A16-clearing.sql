-- The credit went to an account that is said to clear the currency, and holds another.
-- @paydb
SELECT pg_temp.account(x1, foreign_currency, 0, NULL) FROM scene;
INSERT INTO clearing_account (account_id, currency, shard) SELECT x1, currency, 9000 + n FROM scene;
SELECT pg_temp.move(l.account_id, -l.amount_minor), pg_temp.move(s.x1, l.amount_minor)
  FROM scene s JOIN ledger_entry l ON l.payout_id = s.p3 AND l.direction = 'CREDIT';
UPDATE ledger_entry l SET account_id = s.x1 FROM scene s WHERE l.payout_id = s.p3 AND l.direction = 'CREDIT';
-- @finding
t3, account, p3, NULL
