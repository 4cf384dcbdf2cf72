-- $1: the group roles. Those that exist, and what none of them should be.
SELECT rolname, array_to_string(ARRAY[
         CASE WHEN rolcanlogin THEN 'LOGIN' END, CASE WHEN rolsuper THEN 'SUPERUSER' END,
         CASE WHEN rolcreaterole THEN 'CREATEROLE' END, CASE WHEN rolcreatedb THEN 'CREATEDB' END,
         CASE WHEN rolreplication THEN 'REPLICATION' END, CASE WHEN rolbypassrls THEN 'BYPASSRLS' END], ' ')
  FROM pg_roles WHERE rolname = ANY($1::text[])
 ORDER BY 1;
