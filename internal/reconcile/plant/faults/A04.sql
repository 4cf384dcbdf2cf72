-- The account held too little, and the last posting took it below zero.
-- drops: account_balance_ck
-- @paydb
ALTER TABLE account DROP CONSTRAINT IF EXISTS account_balance_ck;
UPDATE opening_balance o SET amount_minor = o.amount_minor - a.balance_minor - 1 FROM scene s JOIN account a ON a.account_id = s.account WHERE o.account_id = s.account;
UPDATE account SET balance_minor = -1 FROM scene WHERE account_id = account;
-- @finding
t3, account, NULL, NULL
