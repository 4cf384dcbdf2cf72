-- Rows that SyncGuard has not written, or has written wrongly, each with the
-- first thing that is odd about it; then counters that it does not call so.
SELECT FALSE AS counter, l.key AS key,
       CASE WHEN num_nulls(l.fence, l.lock_id, l.expires_at_ms, l.acquired_at_ms) > 0 THEN 'a column of it is NULL'
            WHEN l.fence !~ '^[0-9]{15}$' THEN 'its fence is ' || quote_literal(l.fence)
            WHEN octet_length(l.key) > 512 THEN 'its key is longer than 512 bytes'
            WHEN l.key IS NOT NFC NORMALIZED THEN 'its key is not in the Unicode form NFC'
            WHEN l.fence = '000000000000000' THEN 'its fence is 0'
            ELSE 'its user_key is another' END
  FROM syncguard_locks l
 WHERE num_nulls(l.fence, l.lock_id, l.expires_at_ms, l.acquired_at_ms) > 0 OR l.fence !~ '^[0-9]{15}$' OR l.fence = '000000000000000'
    OR octet_length(l.key) > 512 OR l.key IS NOT NFC NORMALIZED OR l.user_key IS DISTINCT FROM l.key
UNION ALL
SELECT TRUE, c.fence_key,
       CASE WHEN c.fence_key NOT LIKE 'fence:_%' THEN 'its key does not begin with fence: and a lock''s key'
            WHEN octet_length(c.fence_key) > 518 THEN 'its lock''s key is longer than 512 bytes'
            ELSE 'its key is not in the Unicode form NFC' END
  FROM syncguard_fence_counters c
 WHERE c.fence_key NOT LIKE 'fence:_%' OR octet_length(c.fence_key) > 518 OR c.fence_key IS NOT NFC NORMALIZED
 ORDER BY 1, 2;
