-- Submitted by the holder before, posted by the one who took over: the legs are the
-- claim's.
-- @paydb
SELECT pg_temp.claimed(p3, t3 - 1, other_by) FROM scene;
UPDATE rail_submission SET presented_token = t3 - 1 FROM scene WHERE payout_id = p3;
-- @lockdb
SELECT pg_temp.granted(t3 - 1, account, other_by, at3 - interval '2 s') FROM scene;
