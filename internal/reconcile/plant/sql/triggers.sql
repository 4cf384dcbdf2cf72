-- Every trigger of the migrations, those of partitions too, and how it is enabled.
SELECT t.tgrelid::regclass::text, quote_ident(t.tgname), t.tgenabled::text
  FROM pg_trigger t
  JOIN pg_class c ON c.oid = t.tgrelid
 WHERE NOT t.tgisinternal AND c.relnamespace = current_schema()::regnamespace
 ORDER BY 1, 2;
