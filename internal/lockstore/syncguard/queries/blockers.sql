-- Who keeps the key: the holder of its advisory lock (whoever acquires, this
-- program's renew and release) or of its row (the library's extend and release).
SELECT DISTINCT l.pid
  FROM pg_locks l
 WHERE l.granted AND l.pid <> pg_backend_pid()
   AND (   (l.locktype = 'advisory' AND l.objsubid = 1
            AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
            AND (l.classid::bigint << 32 | l.objid::bigint) = hashtext(:key)::bigint)
        OR (l.locktype = 'transactionid'
            AND l.transactionid IN (SELECT s.xmax FROM syncguard_locks s WHERE s.key = :key AND s.xmax <> '0'::xid)))
 ORDER BY 1;
