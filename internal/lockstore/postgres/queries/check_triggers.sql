SELECT c.relname || '.' || t.tgname
  FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
 WHERE t.tgrelid IN ('lock_entry'::regclass, 'lock_session'::regclass, 'lock_revocation'::regclass)
   AND NOT t.tgisinternal AND t.tgenabled = 'A';
