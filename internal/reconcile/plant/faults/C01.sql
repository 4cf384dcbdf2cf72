-- The rail paid two days ago, and nobody posted.
-- @paydb
SELECT pg_temp.unpost(p3) FROM scene;
UPDATE payout SET state = 'RAIL_ACKED' FROM scene WHERE payout_id = p3;
-- @finding
t3, account, p3, NULL
