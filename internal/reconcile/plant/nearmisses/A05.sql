-- No leg in either direction, because the posting is still to come.
-- @paydb
SELECT pg_temp.unpost(p3) FROM scene;
UPDATE payout SET state = 'RAIL_ACKED' FROM scene WHERE payout_id = p3;
SELECT pg_temp.touched(p3, '1 minute') FROM scene;
