-- A claim under the very last token issued.
-- @paydb
SELECT pg_temp.payout(x1, account, 'CLAIMED', f2, other_by, '1 minute') FROM scene;
-- @lockdb
SELECT pg_temp.granted(f2, account, other_by, now() - interval '65 s') FROM scene;
