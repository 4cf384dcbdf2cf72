-- How many connections there are, and how many there may be: on the server for a
-- login without rights of its own, and on this database.
SELECT (SELECT sum(numbackends) FROM pg_stat_database)::bigint,
       current_setting('max_connections')::bigint - current_setting('superuser_reserved_connections')::bigint
         - coalesce(current_setting('reserved_connections', true), '0')::bigint,
       s.numbackends::bigint, d.datconnlimit::bigint
  FROM pg_stat_database s JOIN pg_database d ON d.oid = s.datid
 WHERE d.datname = current_database();
