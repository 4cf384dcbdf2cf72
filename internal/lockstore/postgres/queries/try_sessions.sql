-- Of these sessions the live ones, and whether they could be locked at once; one that
-- another transaction is about to end could not.
WITH live AS (
  SELECT session_id FROM lock_session WHERE session_id = ANY(:session_ids::uuid[]) AND expires_at > now()
), got AS MATERIALIZED (
  SELECT s.session_id FROM lock_session s WHERE s.session_id = ANY(:session_ids::uuid[]) AND s.expires_at > now()
   ORDER BY s.session_id
     FOR KEY SHARE SKIP LOCKED
)
SELECT l.session_id, EXISTS (SELECT FROM got g WHERE g.session_id = l.session_id) FROM live l;
