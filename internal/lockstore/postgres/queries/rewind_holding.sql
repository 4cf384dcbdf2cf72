-- A transaction that has called nextval keeps this lock to its end; a prepared one
-- has no process.
SELECT coalesce(l.pid, 0), coalesce(a.usename, x.owner, ''), coalesce(a.application_name, ''), coalesce(host(a.client_addr), ''),
       coalesce(a.state, CASE WHEN l.pid IS NULL THEN 'prepared' END, ''), coalesce(a.xact_start, x.prepared), coalesce(x.gid, '')
  FROM pg_locks l
  LEFT JOIN pg_stat_activity a ON a.pid = l.pid
  LEFT JOIN pg_prepared_xacts x ON l.pid IS NULL AND l.virtualtransaction = '-1/' || x.transaction::text
 WHERE l.locktype = 'relation' AND l.relation = 'fencing_token_seq'::regclass AND l.granted AND l.mode = 'RowExclusiveLock'
   AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
   AND l.pid IS DISTINCT FROM pg_backend_pid()
 ORDER BY 1, 7;
