-- Entries whose lease ended long ago, and nothing else; one that somebody works
-- on at this moment is left for the next time.
WITH lapsed AS MATERIALIZED (
  SELECT lock_key, fencing_token FROM lock_entry
   WHERE expires_at < now() - make_interval(secs => :older_than)
   ORDER BY lock_key COLLATE "C"
   LIMIT :row_limit
     FOR UPDATE SKIP LOCKED
)
DELETE FROM lock_entry e USING lapsed l
 WHERE e.lock_key = l.lock_key AND e.fencing_token = l.fencing_token
RETURNING e.lock_key, e.fencing_token, e.owner_id, e.session_id, e.acquired_at, e.expires_at;
