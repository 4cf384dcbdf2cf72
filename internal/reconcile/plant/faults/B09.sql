-- The rail's mark stands at a number that was never issued.
-- @paydb
UPDATE rail_high_water SET highest_token = forged FROM scene WHERE account_id = account;
-- @finding
0, account, NULL, NULL
