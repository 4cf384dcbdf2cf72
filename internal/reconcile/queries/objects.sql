-- What guards the rows of this schema: constraints, NOT NULL, unique indexes, triggers
-- with their state, and functions, by what they do. Of the journal's partitions only the triggers.
SELECT 'constraint', t.relname, c.conname::text,
       CASE WHEN NOT c.convalidated THEN 'not valid'
            WHEN i.indexrelid IS NOT NULL AND NOT i.indisvalid THEN 'invalid'
            -- DISABLE TRIGGER ALL leaves a foreign key standing that looks at nothing.
            WHEN EXISTS (SELECT FROM pg_trigger g WHERE g.tgconstraint = c.oid AND g.tgisinternal AND g.tgenabled NOT IN ('O', 'A')) THEN 'disabled'
            ELSE 'valid' END,
       regexp_replace(replace(pg_get_constraintdef(c.oid, true), ' NOT VALID', ''), '\s+', ' ', 'g')
  FROM pg_constraint c
  JOIN pg_class t ON t.oid = c.conrelid
  LEFT JOIN pg_index i ON i.indexrelid = c.conindid AND c.contype IN ('p', 'u')
 WHERE t.relnamespace = current_schema()::regnamespace AND c.contype IN ('c', 'f', 'p', 'u', 'x')
   AND NOT t.relispartition AND t.relname <> 'flyway_schema_history'
UNION ALL
SELECT 'not null', t.relname, a.attname::text, 'valid', ''
  FROM pg_attribute a
  JOIN pg_class t ON t.oid = a.attrelid
 WHERE t.relnamespace = current_schema()::regnamespace AND t.relkind IN ('r', 'p') AND a.attnum > 0 AND a.attnotnull
   AND NOT t.relispartition AND t.relname <> 'flyway_schema_history'
UNION ALL
SELECT 'unique index', t.relname, n.relname::text, CASE WHEN i.indisvalid THEN 'valid' ELSE 'invalid' END,
       pg_get_indexdef(i.indexrelid, 0, true)
  FROM pg_index i
  JOIN pg_class t ON t.oid = i.indrelid
  JOIN pg_class n ON n.oid = i.indexrelid
 WHERE t.relnamespace = current_schema()::regnamespace AND i.indisunique
   AND NOT EXISTS (SELECT FROM pg_constraint c WHERE c.conindid = i.indexrelid AND c.contype IN ('p', 'u'))
   AND NOT t.relispartition AND t.relname <> 'flyway_schema_history'
UNION ALL
SELECT 'trigger', t.relname, g.tgname::text,
       CASE g.tgenabled WHEN 'A' THEN 'always' WHEN 'O' THEN 'not always' WHEN 'R' THEN 'in replica mode only' ELSE 'disabled' END,
       regexp_replace(pg_get_triggerdef(g.oid, true), '\s+', ' ', 'g')
  FROM pg_trigger g
  JOIN pg_class t ON t.oid = g.tgrelid
 WHERE t.relnamespace = current_schema()::regnamespace AND NOT g.tgisinternal
UNION ALL
SELECT 'function', '', format('%s(%s)', f.proname, oidvectortypes(f.proargtypes)), 'valid',
       format('%s%s%s %s', l.lanname, CASE WHEN f.prosecdef THEN ', security definer' END,
              (SELECT string_agg(', ' || replace(c, quote_ident(current_schema()), 'this schema'), '' ORDER BY c) FROM unnest(f.proconfig) c), md5(f.prosrc))
  FROM pg_proc f
  JOIN pg_language l ON l.oid = f.prolang
 WHERE f.pronamespace = current_schema()::regnamespace AND l.lanname IN ('sql', 'plpgsql')
   AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = f.oid AND d.deptype = 'e')
 ORDER BY 1, 2, 3
