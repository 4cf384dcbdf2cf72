-- $1: a table's name as SQL has it; $2: its columns that are unique by themselves,
-- so that whatever holds one of them is so too. What is none of the library's and can
-- refuse what it writes, with the statement that takes it away.
WITH hindered AS (SELECT to_regclass($1)::oid AS oid)
SELECT 'table', pg_get_constraintdef(k.oid) || CASE WHEN k.conrelid = h.oid THEN '' ELSE ' of table ' || k.conrelid::regclass::text END,
       format('ALTER TABLE %s DROP CONSTRAINT %I', k.conrelid::regclass, k.conname)
  FROM hindered h
  JOIN pg_catalog.pg_constraint k ON k.contype IN ('c', 'f', 'x') AND h.oid IN (k.conrelid, k.confrelid)
UNION ALL
SELECT 'table', 'rule ' || quote_ident(r.rulename), format('DROP RULE %I ON %s', r.rulename, r.ev_class::regclass)
  FROM hindered h
  JOIN pg_catalog.pg_rewrite r ON r.ev_class = h.oid AND r.ev_type IN ('2', '3', '4') AND r.ev_enabled IN ('O', 'A')
UNION ALL
SELECT 'index', replace(pg_get_indexdef(i.indexrelid), 'CREATE UNIQUE INDEX', 'unique index'),
       CASE WHEN k.conname IS NULL THEN format('DROP INDEX %s', i.indexrelid::regclass)
            ELSE format('ALTER TABLE %s DROP CONSTRAINT %I', i.indrelid::regclass, k.conname) END
  FROM hindered h
  JOIN pg_catalog.pg_index i ON i.indrelid = h.oid AND i.indisunique AND NOT i.indisprimary
  LEFT JOIN pg_catalog.pg_constraint k ON k.conindid = i.indexrelid AND k.contype = 'u'
 WHERE NOT EXISTS (SELECT FROM generate_series(0, i.indnkeyatts - 1) n
                     JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[n]
                    WHERE a.attname::text = ANY ($2))
 ORDER BY 1, 2;
