-- Its rail outcome is said to be unknown for three hours, and there is no attempt.
-- @paydb
SELECT pg_temp.payout(x1, account, 'RAIL_AMBIGUOUS', f1, by3, '3 hours') FROM scene;
-- @lockdb
SELECT pg_temp.granted(f1, account, by3, now() - interval '3 hours 4 s') FROM scene;
-- @finding
f1, account, x1, NULL
