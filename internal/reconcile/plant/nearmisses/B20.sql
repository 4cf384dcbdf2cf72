-- Taken away by a fast-forward, with its audit row.
-- @lockdb
SELECT pg_temp.granted(f1, account, other_by, now() - interval '2 hours') FROM scene;
SELECT pg_temp.revoked(f1, account, other_by, now() - interval '1 hour') FROM scene;
UPDATE lock_grant g SET ended = 'voided' FROM scene s WHERE g.fencing_token = s.f1;
