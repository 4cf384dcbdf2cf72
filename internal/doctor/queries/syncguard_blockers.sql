-- Transactions that have been open for more than five seconds and keep a key or
-- rows of SyncGuard's tables, oldest first, and how many wait for each.
WITH key_lock AS (
  SELECT l.pid, k.key
    FROM pg_locks l
    JOIN (SELECT key FROM syncguard_locks UNION SELECT substr(fence_key, 7) FROM syncguard_fence_counters WHERE fence_key LIKE 'fence:%') k
      ON l.objid::bigint = hashtext(k.key)::bigint & 4294967295
     AND l.classid::bigint = CASE WHEN hashtext(k.key) < 0 THEN 4294967295 ELSE 0 END
   WHERE l.locktype = 'advisory' AND l.objsubid = 1 AND l.granted
     AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
), table_lock AS (
  SELECT DISTINCT l.pid, l.relation::regclass::text AS name
    FROM pg_locks l
   WHERE l.relation IN (to_regclass('syncguard_locks'), to_regclass('syncguard_fence_counters'))
     AND l.granted AND l.mode NOT IN ('AccessShareLock', 'RowShareLock')
)
SELECT a.pid, coalesce(a.usename::text, ''), coalesce(a.application_name, ''), coalesce(a.state, ''),
       extract(epoch FROM now() - a.xact_start)::bigint,
       coalesce((SELECT string_agg('lock ' || quote_literal(key), ', ' ORDER BY key) FROM key_lock WHERE pid = a.pid),
                (SELECT string_agg('rows of ' || name, ', ' ORDER BY name) FROM table_lock WHERE pid = a.pid)),
       (SELECT count(*) FROM pg_stat_activity w WHERE a.pid = ANY (pg_blocking_pids(w.pid)))
  FROM pg_stat_activity a
 WHERE a.datname = current_database() AND a.pid <> pg_backend_pid() AND now() - a.xact_start > interval '5 seconds'
   AND (EXISTS (SELECT FROM key_lock WHERE pid = a.pid) OR EXISTS (SELECT FROM table_lock WHERE pid = a.pid))
 ORDER BY a.xact_start, a.pid;
