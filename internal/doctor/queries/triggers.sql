-- Every trigger of the schema, and what it runs.
SELECT c.relname, t.tgname, t.tgenabled::text, p.proname
  FROM pg_trigger t
  JOIN pg_class c ON c.oid = t.tgrelid
  JOIN pg_namespace n ON n.oid = c.relnamespace
  JOIN pg_proc p ON p.oid = t.tgfoid
 WHERE n.nspname = current_schema() AND NOT t.tgisinternal;
