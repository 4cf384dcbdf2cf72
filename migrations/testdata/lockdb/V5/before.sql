-- Without the guard the audit can be rewritten: taken back at once.
DO $$ BEGIN
  UPDATE lock_revocation SET reason = 'rewritten' WHERE prev_token = 101;
  IF NOT FOUND THEN RAISE 'nothing to rewrite'; END IF;
  UPDATE lock_revocation SET reason = 'before the guards' WHERE prev_token = 101;
END $$;
