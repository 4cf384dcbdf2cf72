-- Locks whose fence the counter would issue again, and counters below 0, the
-- widest gap first.
WITH known AS (
  SELECT coalesce(l.key, c.fence_key) AS key, coalesce(c.fence, 0) AS counter,
         CASE WHEN l.fence ~ '^[0-9]{15}$' THEN l.fence::bigint ELSE 0 END AS fence
    FROM syncguard_fence_counters c
    FULL JOIN syncguard_locks l ON c.fence_key = 'fence:' || l.key
)
SELECT key, counter, fence FROM known WHERE counter < fence ORDER BY counter - fence, key;
