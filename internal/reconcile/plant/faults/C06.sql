-- The rail's reference of p2 stands at p3 too, which came second.
-- @paydb
UPDATE rail_submission SET rail_reference = (SELECT r.rail_reference FROM rail_submission r WHERE r.payout_id = p2) FROM scene WHERE payout_id = p3;
-- @finding
t3, NULL, NULL, NULL
