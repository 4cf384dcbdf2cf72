SELECT to_regclass('peer_instance') WHERE to_regclass('peer_instance') IS NOT NULL;
