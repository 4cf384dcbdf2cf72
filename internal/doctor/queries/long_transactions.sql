-- The transactions of this database that have been open for more than a minute,
-- oldest first, and how many sessions this login may not look into.
SELECT pid, coalesce(usename::text, ''), coalesce(application_name, ''), coalesce(state, ''),
       coalesce(extract(epoch FROM now() - xact_start), 0)::bigint, state IS NULL
  FROM pg_stat_activity
 WHERE datname = current_database() AND pid <> pg_backend_pid() AND usename IS NOT NULL
   AND (state IS NULL AND backend_type IS NULL OR backend_type = 'client backend' AND now() - xact_start > interval '1 minute')
 ORDER BY xact_start NULLS LAST, pid;
