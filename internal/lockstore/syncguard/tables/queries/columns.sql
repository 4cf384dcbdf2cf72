-- $1: a table's name as SQL has it. Its columns in their order, each with the
-- collation by which different texts can be equal, if it has such a one.
SELECT a.attname::text, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attgenerated <> '' OR a.attidentity <> '',
       coalesce(pg_get_expr(d.adbin, d.adrelid), ''),
       coalesce((SELECT quote_ident(o.collname) FROM pg_catalog.pg_collation o WHERE o.oid = a.attcollation AND NOT o.collisdeterministic), '')
  FROM pg_catalog.pg_attribute a
  LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
 WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped
 ORDER BY a.attnum;
