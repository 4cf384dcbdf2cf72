-- Since the sealed run somebody wrote another opening balance and made the balance
-- fit: A01 cannot see it.
-- @paydb
UPDATE opening_balance SET amount_minor = amount_minor + 777 FROM scene WHERE account_id = account;
SELECT pg_temp.move(account, 777) FROM scene;
-- @finding
0, account, NULL, NULL
