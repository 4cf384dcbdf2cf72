-- $1: names. A function's settings, one a line, and its body.
SELECT p.proname, coalesce(array_to_string(p.proconfig, E'\n'), ''), p.prosrc
  FROM pg_proc p
  JOIN pg_namespace n ON n.oid = p.pronamespace
 WHERE n.nspname = current_schema() AND p.proname = ANY($1::text[]);
