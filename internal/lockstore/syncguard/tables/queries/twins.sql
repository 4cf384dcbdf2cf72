-- $1, $2: the names of the two tables. Every copy of either that the
-- search_path leads to, in its order; the first of each is the one in use.
SELECT s.place, n.nspname::text, c.relname::text
  FROM unnest(current_schemas(false)) WITH ORDINALITY AS s (name, place)
  JOIN pg_catalog.pg_namespace n ON n.nspname = s.name
  JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid
 WHERE c.relname IN ($1::text, $2::text) AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
 ORDER BY s.place, c.relname;
