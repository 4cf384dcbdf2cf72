SELECT (SELECT count(*) FROM pg_stat_replication), current_setting('synchronous_standby_names');
