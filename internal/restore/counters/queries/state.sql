-- Every key that has a counter or a lock: the counter's key, where the counter
-- stands, the lock's fence, and whether the lock still counts as held.
SELECT coalesce(c.fence_key, 'fence:' || l.key), c.fence, l.fence,
       coalesce(l.expires_at_ms > floor(extract(epoch FROM clock_timestamp()) * 1000) - 1000, false)
  FROM syncguard_fence_counters c
  FULL JOIN syncguard_locks l ON c.fence_key = 'fence:' || l.key
 ORDER BY coalesce(c.fence_key, 'fence:' || l.key) COLLATE "C";
