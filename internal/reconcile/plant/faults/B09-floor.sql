-- The rail's floor stands at a number that was never issued.
-- @paydb
UPDATE fence_floor SET floor_token = forged FROM scene WHERE point = 'rail';
-- @finding
0, NULL, NULL, NULL
