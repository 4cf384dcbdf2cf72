-- $1: a name as SQL has it. The table that it leads to through the search_path;
-- no row when it leads to none.
SELECT n.nspname::text, c.relkind::text, c.relpersistence::text
  FROM pg_catalog.pg_class c
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 WHERE c.oid = to_regclass($1);
