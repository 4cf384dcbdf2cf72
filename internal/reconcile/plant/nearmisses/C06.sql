-- Two references that differ in their last letter alone.
-- @paydb
UPDATE rail_submission SET rail_reference = 'twin-' || p2 || 'a' FROM scene WHERE payout_id = p2;
UPDATE rail_submission SET rail_reference = 'twin-' || p2 || 'A' FROM scene WHERE payout_id = p3;
