-- Half a minute the other way round.
-- @paydb
UPDATE rail_submission SET submitted_at = at3 + interval '32 s', resolved_at = at3 + interval '33 s' FROM scene WHERE payout_id = p2;
