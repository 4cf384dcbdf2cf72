SELECT relname FROM pg_class WHERE relname = 'outside_mark';
