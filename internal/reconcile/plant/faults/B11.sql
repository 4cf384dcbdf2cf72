-- The rail took p2 ten minutes after p3, under the lower token.
-- @paydb
UPDATE rail_submission SET submitted_at = at3 + interval '10 minutes', resolved_at = at3 + interval '10 minutes 1 s' FROM scene WHERE payout_id = p2;
-- @finding
t2, account, NULL, NULL
