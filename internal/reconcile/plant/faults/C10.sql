-- Submitted under a token that never claimed the payout.
-- @paydb
UPDATE rail_submission SET presented_token = t3 - 1 FROM scene WHERE payout_id = p3;
-- @lockdb
SELECT pg_temp.granted(t3 - 1, account, other_by, at3 - interval '2 s') FROM scene;
-- @finding
t3 - 1, account, p3, NULL
