-- $1: a name as SQL has it. The table that it leads to through the search_path,
-- whether it is part of an inheritance or of partitions, and its primary key's name;
-- no row when it leads to none.
SELECT n.nspname::text, c.relkind::text, c.relpersistence::text,
       c.relispartition OR EXISTS (SELECT FROM pg_catalog.pg_inherits h WHERE c.oid IN (h.inhrelid, h.inhparent)),
       coalesce((SELECT quote_ident(k.conname) FROM pg_catalog.pg_constraint k WHERE k.conrelid = c.oid AND k.contype = 'p'), '')
  FROM pg_catalog.pg_class c
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 WHERE c.oid = to_regclass($1);
