-- Rows that SyncGuard has not written, or has written wrongly, each with the
-- first thing that is odd about it.
SELECT l.key,
       CASE WHEN l.fence !~ '^[0-9]{15}$' THEN 'its fence is ' || quote_literal(l.fence)
            WHEN octet_length(l.key) > 512 THEN 'its key is longer than 512 bytes'
            WHEN l.key IS NOT NFC NORMALIZED THEN 'its key is not in the Unicode form NFC'
            ELSE 'its user_key is another' END
  FROM syncguard_locks l
 WHERE l.fence !~ '^[0-9]{15}$' OR octet_length(l.key) > 512 OR l.key IS NOT NFC NORMALIZED OR l.user_key <> l.key
 ORDER BY l.key;
