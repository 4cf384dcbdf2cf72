SELECT tgname FROM pg_trigger WHERE tgrelid = 'lock_entry'::regclass AND NOT tgisinternal;
