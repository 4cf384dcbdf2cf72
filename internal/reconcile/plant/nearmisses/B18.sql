-- A revocation of the very last token issued.
-- @lockdb
SELECT pg_temp.granted(f2, account, other_by, now() - interval '2 hours') FROM scene;
SELECT pg_temp.revoked(f2, account, other_by, now() - interval '1 hour') FROM scene;
