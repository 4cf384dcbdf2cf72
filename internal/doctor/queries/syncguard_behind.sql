-- Locks whose fence the counter would issue again, and counters below 0, the
-- widest gap first. What SyncGuard calls no lock and no counter (syncguard_odd.sql)
-- is neither: nothing is drawn from it, and a fast-forward leaves it as it stands.
WITH known AS (
  SELECT coalesce(l.key, substr(c.fence_key, 7)) AS key, coalesce(c.fence, 0) AS counter,
         CASE WHEN l.fence ~ '^[0-9]{15}$' THEN l.fence::bigint ELSE 0 END AS fence
    FROM syncguard_fence_counters c
    FULL JOIN syncguard_locks l ON c.fence_key = 'fence:' || l.key
   WHERE c.fence_key IS NULL OR c.fence_key LIKE 'fence:_%'
)
SELECT key, counter, fence
  FROM known
 WHERE counter < fence AND octet_length(key) <= 512 AND CASE WHEN getdatabaseencoding() = 'UTF8' THEN key IS NFC NORMALIZED ELSE true END
 ORDER BY counter - fence, key;
