-- A claim under a number that was never issued.
-- @paydb
SELECT pg_temp.payout(x1, account, 'CLAIMED', forged, other_by, '1 minute') FROM scene;
-- @finding
forged, NULL, NULL, NULL
