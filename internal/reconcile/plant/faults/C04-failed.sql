-- Nobody saw the rail's answer, and somebody made it a failure without asking.
-- @paydb
SELECT pg_temp.unpost(p3) FROM scene;
UPDATE payout SET state = 'FAILED' FROM scene WHERE payout_id = p3;
UPDATE rail_submission SET outcome = 'TIMEOUT', rail_reference = NULL FROM scene WHERE payout_id = p3;
-- @finding
t3, account, p3, NULL
