-- The floor of all accounts stands at a number that was never issued.
-- @paydb
UPDATE fence_floor SET floor_token = forged FROM scene WHERE point = 'account';
-- @finding
0, NULL, NULL, NULL
