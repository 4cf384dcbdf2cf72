-- Revoked an hour ago, and acquired again since, by the same worker.
-- @lockdb
SELECT pg_temp.granted(f1, account, other_by, now() - interval '2 hours') FROM scene;
SELECT pg_temp.revoked(f1, account, other_by, now() - interval '1 hour') FROM scene;
SELECT pg_temp.held(f2, account, other_by, '30 minutes') FROM scene;
