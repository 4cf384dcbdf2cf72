-- Refused, without a reference: there is none.
-- @paydb
SELECT pg_temp.unpost(p3) FROM scene;
UPDATE payout SET state = 'FAILED' FROM scene WHERE payout_id = p3;
UPDATE rail_submission SET outcome = 'REJECTED', rail_reference = NULL FROM scene WHERE payout_id = p3;
