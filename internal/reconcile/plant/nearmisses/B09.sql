-- The mark was raised to the last token issued, drawn as a fence.
-- @paydb
UPDATE rail_high_water SET highest_token = f2 FROM scene WHERE account_id = account;
-- @lockdb
SELECT pg_temp.fence_drawn(f2, t3, account) FROM scene;
