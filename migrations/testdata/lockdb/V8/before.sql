SELECT relname FROM pg_class WHERE relname = 'peer_instance';
