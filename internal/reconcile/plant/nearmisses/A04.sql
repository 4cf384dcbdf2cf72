-- The last posting took everything, and no more.
-- @paydb
UPDATE opening_balance o SET amount_minor = o.amount_minor - a.balance_minor FROM scene s JOIN account a ON a.account_id = s.account WHERE o.account_id = s.account;
UPDATE account SET balance_minor = 0 FROM scene WHERE account_id = account;
