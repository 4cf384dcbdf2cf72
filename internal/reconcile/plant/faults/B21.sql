-- Two payouts of one payer under one token, as with a <= in the account's statement.
-- @paydb
SELECT pg_temp.posted(x1, account, clearing, 100, t3, by3) FROM scene;
-- @finding
t3, account, NULL, NULL
