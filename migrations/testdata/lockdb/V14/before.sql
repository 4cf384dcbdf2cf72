SELECT 'by statement', tgname FROM pg_trigger WHERE tgrelid = 'lock_entry'::regclass AND tgname LIKE 'lock\_grant%' AND tgtype & 1 = 0;
