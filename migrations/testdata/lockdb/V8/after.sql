SELECT 'empty' FROM peer_instance;
DO $$ BEGIN
  INSERT INTO peer_instance (one, system_identifier) VALUES (false, 1);
  RAISE 'a second row was accepted';
EXCEPTION WHEN check_violation THEN NULL;
END $$;
