-- Claimed by one, taken over by another before the posting: both legs are the other's.
-- @paydb
SELECT pg_temp.claimed(p3, t3 - 1, other_by) FROM scene;
-- @lockdb
SELECT pg_temp.granted(t3 - 1, account, other_by, at3 - interval '2 s') FROM scene;
