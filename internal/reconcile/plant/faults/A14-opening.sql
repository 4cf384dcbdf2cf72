-- An account is gone with its balance: what it opened with is not, nor an order of its.
-- @paydb
SELECT pg_temp.account(x1, currency, 5000, NULL) FROM scene;
SELECT pg_temp.payout(x2, x1, 'PENDING', NULL, NULL, '3 hours') FROM scene;
DELETE FROM account USING scene WHERE account_id = x1;
-- @finding
0, x1, NULL, NULL
