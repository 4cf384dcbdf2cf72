-- The largest amount there is, in and out: the sums are exactly 64 bits.
-- @paydb
SELECT pg_temp.account(x1, 'XXX', 0, 0), pg_temp.account(x2, 'XXX', 9223372036854775807, NULL) FROM scene;
SELECT pg_temp.posted(x3, x2, x1, 9223372036854775807, f1, by3) FROM scene;
-- @lockdb
SELECT pg_temp.granted(f1, x2, by3, now() - interval '3 hours 4 s') FROM scene;
