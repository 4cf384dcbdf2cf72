SELECT attname FROM pg_attribute WHERE attrelid = 'lock_gate'::regclass AND attname = 'run_id';
