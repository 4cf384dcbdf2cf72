-- The guards of the schema in which payout is found.
SELECT c.relname || '.' || t.tgname
  FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
 WHERE c.relnamespace = (SELECT p.relnamespace FROM pg_class p WHERE p.oid = 'payout'::regclass)
   AND NOT t.tgisinternal AND t.tgenabled = 'A';
