-- The ordered bulk form of release.sql: rows locked in key order first, each by
-- its exact key and token (K-2.4).
WITH mine AS MATERIALIZED (
  SELECT e.lock_key, e.fencing_token
    FROM unnest(:keys::text[], :tokens::bigint[]) r (lock_key, fencing_token)
    JOIN lock_entry e ON e.lock_key = r.lock_key AND e.fencing_token = r.fencing_token
   ORDER BY e.lock_key COLLATE "C"
     FOR UPDATE OF e
)
DELETE FROM lock_entry e USING mine m
 WHERE e.lock_key = m.lock_key AND e.fencing_token = m.fencing_token
RETURNING e.lock_key, e.fencing_token;
