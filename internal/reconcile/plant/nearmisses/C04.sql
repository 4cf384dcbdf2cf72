-- Five minutes, and nobody knows yet.
-- @paydb
SELECT pg_temp.unpost(p3) FROM scene;
UPDATE payout SET state = 'RAIL_AMBIGUOUS' FROM scene WHERE payout_id = p3;
UPDATE rail_submission SET outcome = 'TIMEOUT', rail_reference = NULL FROM scene WHERE payout_id = p3;
SELECT pg_temp.touched(p3, '5 minutes') FROM scene;
