-- Who keeps the key: the holder of its advisory lock (an acquire not yet
-- committed) or of its row (a renew, release or revoke not yet committed).
SELECT DISTINCT l.pid
  FROM pg_locks l
 WHERE l.granted AND l.pid <> pg_backend_pid()
   AND (   (l.locktype = 'advisory' AND l.objsubid = 1
            AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
            AND (l.classid::bigint << 32 | l.objid::bigint) = hashtextextended(:key, 7201))
        OR (l.locktype = 'transactionid'
            AND l.transactionid IN (SELECT e.xmax FROM lock_entry e WHERE e.lock_key = :key AND e.xmax <> '0'::xid)))
 ORDER BY 1;
