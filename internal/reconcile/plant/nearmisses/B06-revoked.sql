-- The journal lost the grant, and its revocation tells of it.
-- @lockdb
DELETE FROM lock_grant USING scene WHERE fencing_token = t3;
SELECT pg_temp.revoked(t3, account, by3, at3 + interval '1 hour') FROM scene;
