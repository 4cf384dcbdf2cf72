-- Since the sealed run an old payout was taken out with all that belongs to it, and the
-- balances were made to fit.
-- @paydb
SELECT pg_temp.unpost(p1) FROM scene;
DELETE FROM rail_submission USING scene WHERE payout_id = p1;
DELETE FROM payout_claim USING scene WHERE payout_id = p1;
DELETE FROM payout USING scene WHERE payout_id = p1;
-- @finding
0, NULL, p1, NULL
