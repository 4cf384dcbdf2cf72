-- A token advanced the fence and left no leg; nobody recorded a raise.
-- @paydb
UPDATE account SET fence = t3 + 1 FROM scene WHERE account_id = account;
-- @lockdb
SELECT pg_temp.granted(t3 + 1, account, other_by, at3 + interval '6 s') FROM scene;
-- @finding
t3 + 1, account, NULL, NULL
