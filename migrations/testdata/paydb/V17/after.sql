INSERT INTO peer_instance (system_identifier) VALUES (42);
SELECT got FROM pg_temp.try($q$INSERT INTO peer_instance (system_identifier) VALUES (43)$q$) got WHERE got <> '23505 peer_instance_pkey';
