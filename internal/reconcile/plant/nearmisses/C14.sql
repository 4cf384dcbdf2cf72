-- Since the sealed run one payout was finished and another begun.
-- @paydb
SELECT pg_temp.posted(x1, account, clearing, 120, f1, by3), pg_temp.payout(x2, account, 'PENDING', NULL, NULL, '1 minute') FROM scene;
-- @lockdb
SELECT pg_temp.granted(f1, account, by3, now() - interval '3 hours 4 s') FROM scene;
