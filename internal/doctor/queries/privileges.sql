-- $1: relations, $2: functions. Every privilege that somebody other than the
-- owner has on them; column "" is the whole of it.
SELECT CASE WHEN x.grantee = 0 THEN 'PUBLIC' ELSE coalesce(r.rolname, x.grantee::text) END, x.privilege_type, x.object, x.kind, x.field, x.is_grantable
  FROM (
    SELECT c.relname AS object, CASE c.relkind WHEN 'S' THEN 'SEQUENCE ' ELSE '' END AS kind, '' AS field, c.relowner AS owner, a.*
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace CROSS JOIN LATERAL aclexplode(c.relacl) a
     WHERE n.nspname = current_schema() AND c.relname = ANY($1::text[])
    UNION ALL
    SELECT c.relname, '', f.attname, c.relowner, a.*
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
      JOIN pg_attribute f ON f.attrelid = c.oid AND NOT f.attisdropped CROSS JOIN LATERAL aclexplode(f.attacl) a
     WHERE n.nspname = current_schema() AND c.relname = ANY($1::text[])
    UNION ALL
    SELECT p.proname, 'FUNCTION ', '', p.proowner, a.*
      FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
     CROSS JOIN LATERAL aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
     WHERE n.nspname = current_schema() AND p.proname = ANY($2::text[])
  ) x LEFT JOIN pg_roles r ON r.oid = x.grantee
 WHERE x.grantee <> x.owner
 ORDER BY 1, 3, 2, 5;
