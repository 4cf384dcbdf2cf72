-- It posted two seconds after it was revoked, by clocks that may differ by five.
-- @lockdb
SELECT pg_temp.revoked(t3, account, by3, at3 + interval '2 s') FROM scene;
