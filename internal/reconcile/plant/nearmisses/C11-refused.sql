-- The rail refused it half an hour ago.
-- @paydb
SELECT pg_temp.unpost(p3) FROM scene;
UPDATE payout SET state = 'RAIL_SUBMITTED' FROM scene WHERE payout_id = p3;
UPDATE rail_submission SET outcome = 'REJECTED', rail_reference = NULL FROM scene WHERE payout_id = p3;
SELECT pg_temp.touched(p3, '30 minutes') FROM scene;
