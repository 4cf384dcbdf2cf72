-- Every key that has a counter or a lock: the counter's key, where the counter
-- stands, the text that is the lock's fence, and whether the lock still counts as held.
SELECT coalesce(c.fence_key, 'fence:' || l.key), c.fence, CASE WHEN l.key IS NOT NULL THEN coalesce(l.fence, 'NULL') END,
       coalesce(l.expires_at_ms > floor(extract(epoch FROM clock_timestamp()) * 1000) - 1000, false)
  FROM syncguard_fence_counters c
  FULL JOIN syncguard_locks l ON c.fence_key = 'fence:' || l.key
 WHERE coalesce(c.fence_key, l.key) IS NOT NULL
 ORDER BY coalesce(c.fence_key, 'fence:' || l.key) COLLATE "C";
