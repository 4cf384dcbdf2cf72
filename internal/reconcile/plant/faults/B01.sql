-- The fence never heard of the last posting, as if it had been lost or set back.
-- @paydb
UPDATE account SET fence = t2 FROM scene WHERE account_id = account;
-- @finding
t3, account, NULL, NULL
