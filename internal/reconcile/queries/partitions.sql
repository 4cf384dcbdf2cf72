-- The partitions of the journal.
SELECT t.relname::text FROM pg_inherits p JOIN pg_class t ON t.oid = p.inhrelid
 WHERE p.inhparent = to_regclass('lock_grant') ORDER BY 1
