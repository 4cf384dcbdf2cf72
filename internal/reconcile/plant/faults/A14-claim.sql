-- A payout is gone with its posting and its attempt: that it was claimed is not.
-- @paydb
SELECT pg_temp.unpost(p3) FROM scene;
DELETE FROM rail_submission USING scene WHERE payout_id = p3;
DELETE FROM payout USING scene WHERE payout_id = p3;
-- @finding
t3, NULL, p3, NULL
