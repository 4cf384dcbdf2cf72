-- The lowest token there is, from before the journal.
-- @paydb
SELECT pg_temp.account(x1, currency, 5000, NULL), pg_temp.posted(x2, x1, clearing, 100, 1, by3) FROM scene;
