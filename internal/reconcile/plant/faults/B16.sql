-- Ten minutes ago the lock went to another, who has not taken the payout over.
-- @paydb
SELECT pg_temp.payout(x1, account, 'CLAIMED', f1, by3, '12 minutes') FROM scene;
-- @lockdb
SELECT pg_temp.granted(f1, account, by3, now() - interval '13 minutes'), pg_temp.held(f2, account, other_by, '10 minutes') FROM scene;
-- @finding
f1, account, x1, NULL
