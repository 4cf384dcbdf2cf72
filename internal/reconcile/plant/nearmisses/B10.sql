-- An attempt that was refused by the floor, and forwarded nowhere, raises no mark.
-- @paydb
SELECT pg_temp.claimed(p3, t3 - 1, other_by) FROM scene;
UPDATE rail_submission SET presented_token = t3 - 1 FROM scene WHERE payout_id = p3;
UPDATE rail_high_water SET highest_token = t3 - 1 FROM scene WHERE account_id = account;
SELECT pg_temp.attempt(x1, p3, t3, 'FENCED', NULL) FROM scene;
-- @lockdb
SELECT pg_temp.granted(t3 - 1, account, other_by, at3 - interval '2 s') FROM scene;
