-- blockers.sql for many keys, each with whoever keeps it.
WITH locks AS MATERIALIZED (SELECT * FROM pg_locks l WHERE l.granted AND l.pid <> pg_backend_pid() AND l.locktype IN ('advisory', 'transactionid'))
SELECT DISTINCT k, l.pid
  FROM unnest(:keys::text[]) k
  JOIN locks l
    ON (l.locktype = 'advisory' AND l.objsubid = 1
        AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND (l.classid::bigint << 32 | l.objid::bigint) = hashtextextended(k, 7201))
    OR (l.locktype = 'transactionid'
        AND l.transactionid IN (SELECT e.xmax FROM lock_entry e WHERE e.lock_key = k AND e.xmax <> '0'::xid))
 ORDER BY 1, 2;
