-- The mark is behind the last attempt that the rail took.
-- @paydb
UPDATE rail_high_water SET highest_token = t2 FROM scene WHERE account_id = account;
-- @finding
t3, account, NULL, NULL
