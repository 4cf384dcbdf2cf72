-- A token that never claimed the payout came to the rail, and was refused.
-- @paydb
SELECT pg_temp.attempt(x1, p3, t3 - 1, 'FENCED', NULL) FROM scene;
-- @lockdb
SELECT pg_temp.granted(t3 - 1, account, other_by, at3 - interval '2 s') FROM scene;
