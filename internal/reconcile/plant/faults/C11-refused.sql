-- The rail refused it two days ago, and nobody let it fail.
-- @paydb
SELECT pg_temp.unpost(p3) FROM scene;
UPDATE payout SET state = 'RAIL_SUBMITTED' FROM scene WHERE payout_id = p3;
UPDATE rail_submission SET outcome = 'REJECTED', rail_reference = NULL FROM scene WHERE payout_id = p3;
-- @finding
t3, account, p3, NULL
