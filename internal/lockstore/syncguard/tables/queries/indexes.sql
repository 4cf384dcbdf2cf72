-- $1: a table's name as SQL has it. Its plain indexes over one column: those
-- over several, over an expression or over some of the rows serve nobody here.
SELECT quote_ident(n.nspname) || '.' || quote_ident(c.relname), a.attname::text, i.indisunique, i.indisprimary, i.indisvalid, i.indimmediate
  FROM pg_catalog.pg_index i
  JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
 WHERE i.indrelid = to_regclass($1) AND i.indnkeyatts = 1 AND i.indpred IS NULL AND i.indexprs IS NULL
 ORDER BY i.indisvalid DESC, 1;
