-- A later holder has claimed and not posted: the fence stays at the last posting.
-- @paydb
SELECT pg_temp.payout(x1, account, 'CLAIMED', f1, other_by, '1 minute') FROM scene;
-- @lockdb
SELECT pg_temp.granted(f1, account, other_by, now() - interval '65 s') FROM scene;
