-- Two equal legs above 2^53, where a sum in floating point no longer sees one unit.
-- @paydb
UPDATE opening_balance SET amount_minor = amount_minor + 9007199254740993 FROM scene WHERE account_id = account;
SELECT pg_temp.move(account, 9007199254740993), pg_temp.posted(x1, account, clearing, 9007199254740993, f1, by3) FROM scene;
-- @lockdb
SELECT pg_temp.granted(f1, account, by3, now() - interval '3 hours 4 s') FROM scene;
