-- The rail paid a payout that does not exist any more: money out, and nothing debited.
-- @paydb
SELECT pg_temp.unpost(p3) FROM scene;
DELETE FROM payout_claim USING scene WHERE payout_id = p3;
DELETE FROM payout USING scene WHERE payout_id = p3;
-- @finding
t3, NULL, p3, NULL
