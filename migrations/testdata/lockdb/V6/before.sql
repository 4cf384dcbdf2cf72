SELECT relname FROM pg_class WHERE relname = 'operator_log';
