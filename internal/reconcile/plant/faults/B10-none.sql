-- There is no mark at all.
-- @paydb
DELETE FROM rail_high_water h USING scene s WHERE h.account_id = s.account;
-- @finding
t3, account, NULL, NULL
