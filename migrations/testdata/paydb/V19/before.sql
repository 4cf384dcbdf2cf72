SELECT relname FROM pg_class WHERE relname = 'deployment';
