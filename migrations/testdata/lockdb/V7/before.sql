SELECT relname FROM pg_class WHERE relname = 'lock_grant';
