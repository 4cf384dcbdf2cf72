-- Of the rows that a release, which has a token, or an acquire, which has none, would
-- change, those that another transaction keeps; the others are locked now.
WITH wanted AS MATERIALIZED (
  SELECT e.lock_key, r.fencing_token IS NOT NULL AS releases
    FROM unnest(:keys::text[], :tokens::bigint[], :owner_ids::text[], :session_ids::uuid[]) r (lock_key, fencing_token, owner_id, session_id)
    JOIN lock_entry e ON e.lock_key = r.lock_key
   WHERE CASE WHEN r.fencing_token IS NOT NULL THEN e.fencing_token = r.fencing_token
              ELSE e.expires_at <= now() OR (e.owner_id = r.owner_id AND e.session_id = r.session_id) END
), got AS MATERIALIZED (
  SELECT e.lock_key FROM lock_entry e WHERE e.lock_key IN (SELECT w.lock_key FROM wanted w)
   ORDER BY e.lock_key COLLATE "C"
     FOR UPDATE SKIP LOCKED
)
SELECT w.lock_key, w.releases FROM wanted w WHERE NOT EXISTS (SELECT FROM got g WHERE g.lock_key = w.lock_key);
