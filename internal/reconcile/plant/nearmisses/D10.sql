-- Since the sealed run legs were added, by a posting.
-- @paydb
SELECT pg_temp.posted(x1, account, clearing, 120, f1, by3) FROM scene;
-- @lockdb
SELECT pg_temp.granted(f1, account, by3, now() - interval '3 hours 4 s') FROM scene;
