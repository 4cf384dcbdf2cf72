-- Money is out at the rail, and its debit is still to come: an open payout explains
-- nothing away from the balance, which agrees with the legs.
-- @paydb
SELECT pg_temp.unpost(p3) FROM scene;
UPDATE payout SET state = 'RAIL_ACKED' FROM scene WHERE payout_id = p3;
SELECT pg_temp.touched(p3, '1 minute') FROM scene;
