-- A minute ago the lock went to another, who will take the payout over.
-- @paydb
SELECT pg_temp.payout(x1, account, 'CLAIMED', f1, by3, '2 minutes') FROM scene;
-- @lockdb
SELECT pg_temp.granted(f1, account, by3, now() - interval '125 s'), pg_temp.held(f2, account, other_by, '1 minute') FROM scene;
