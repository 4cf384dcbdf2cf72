-- $1: roles. What each may do in the schema. PUBLIC is asked for by its number.
SELECT r.rolname, has_schema_privilege(r.oid, n.oid, 'USAGE'), has_schema_privilege(r.oid, n.oid, 'CREATE')
  FROM pg_namespace n, pg_roles r WHERE n.nspname = current_schema() AND r.rolname = ANY($1::text[])
 UNION ALL
SELECT 'PUBLIC', true, has_schema_privilege('public', n.oid, 'CREATE')
  FROM pg_namespace n WHERE n.nspname = current_schema();
