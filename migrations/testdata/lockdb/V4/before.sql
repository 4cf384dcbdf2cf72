-- Without the guards anybody may choose a token: taken back at once.
DO $$ BEGIN
  UPDATE lock_entry SET fencing_token = 3000 WHERE lock_key = 'live';
  IF (SELECT fencing_token FROM lock_entry WHERE lock_key = 'live') <> 3000 THEN RAISE 'the guard was there before'; END IF;
  UPDATE lock_entry SET fencing_token = 1 WHERE lock_key = 'live';
END $$;
