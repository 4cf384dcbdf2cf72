-- $1, $2: the columns of the lock table and of the counters', the key first. Every
-- table on which the library's operations work, whatever its name, in the schemas that
-- the search_path leads to, in its order: with these columns, the key unique at once.
SELECT s.place, n.nspname::text, c.relname::text, w.is_lock
  FROM unnest(current_schemas(false)) WITH ORDINALITY AS s (name, place)
  JOIN pg_catalog.pg_namespace n ON n.nspname = s.name
  JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relkind IN ('r', 'p')
  JOIN (VALUES (true, $1::text[]), (false, $2::text[])) AS w (is_lock, columns)
    ON w.columns <@ ARRAY(SELECT a.attname::text FROM pg_catalog.pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped)
 WHERE EXISTS (SELECT FROM pg_catalog.pg_index i JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
                WHERE i.indrelid = c.oid AND i.indisunique AND i.indimmediate AND i.indnkeyatts = 1 AND i.indpred IS NULL AND a.attname::text = w.columns[1])
 ORDER BY s.place, w.is_lock DESC, c.relname;
