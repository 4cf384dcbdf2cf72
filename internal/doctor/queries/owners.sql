-- $1: relations, $2: functions, $3: the owner they should have. The others.
SELECT c.relname, r.rolname, 'ALTER ' || CASE c.relkind WHEN 'S' THEN 'SEQUENCE ' ELSE 'TABLE ' END || quote_ident(c.relname)
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_roles r ON r.oid = c.relowner
 WHERE n.nspname = current_schema() AND c.relname = ANY($1::text[]) AND r.rolname <> $3::text
 UNION ALL
SELECT p.proname || '()', r.rolname, 'ALTER FUNCTION ' || quote_ident(p.proname)
  FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace JOIN pg_roles r ON r.oid = p.proowner
 WHERE n.nspname = current_schema() AND p.proname = ANY($2::text[]) AND r.rolname <> $3::text
 ORDER BY 1;
