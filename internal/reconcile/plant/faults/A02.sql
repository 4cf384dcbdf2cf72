-- Nobody ever said what the account held. Not a break, and not clean either.
-- @paydb
DELETE FROM opening_balance USING scene WHERE account_id = account;
-- @finding
0, account, NULL, NULL
