-- Token order (K-1), live sessions only (K-2.3), promises never cut (K-2.10).
--
-- The specified acquire draws nextval before it owns the key, so that a later
-- holder could get a lower token. These triggers draw it again once the key is
-- owned, for every writer, and leave the specified statements as they are.
-- Locks: SHARE ROW EXCLUSIVE on lock_entry and lock_session while created.

-- No token survives a JSON number above 2^53 (K-1.6). NOT VALID: rows that
-- stand are not this migration's to judge, and the table is not scanned.
ALTER TABLE lock_entry ADD CONSTRAINT lock_entry_token_max_ck CHECK (fencing_token <= 9007199254740992) NOT VALID;

CREATE FUNCTION lock_entry_order() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  -- (1) A token shown after a commit that a crash undoes is issued again (K-1.4).
  PERFORM set_config('synchronous_commit', 'on', true)
    WHERE current_setting('synchronous_commit') IN ('off', 'local', 'remote_write');
  -- (2) Session first, key second: the reaper's order (K-2.4). A replayed row's
  -- session may have lapsed meanwhile.
  IF current_setting('session_replication_role') <> 'replica' THEN
    PERFORM FROM lock_session s WHERE s.session_id = NEW.session_id AND s.expires_at > now() FOR KEY SHARE;
    IF NOT FOUND THEN
      RAISE foreign_key_violation USING
        MESSAGE = format('lock session %s… has lapsed or is gone', left(NEW.session_id::text, 8)),
        CONSTRAINT = 'lock_entry_session_id_fkey', TABLE = TG_TABLE_NAME, SCHEMA = TG_TABLE_SCHEMA;
    END IF;
  END IF;
  -- (3) Own the key, held or not: there may be no row to lock yet. 7201 is an
  -- arbitrary seed that must never change.
  PERFORM pg_advisory_xact_lock(hashtextextended(NEW.lock_key, 7201));
  -- (4) The exact negation of the specified WHERE: contended, and the holder's
  -- row is left alone.
  IF EXISTS (SELECT FROM lock_entry e
              WHERE e.lock_key = NEW.lock_key AND e.expires_at > now()
                AND (e.owner_id <> NEW.owner_id OR e.session_id <> NEW.session_id)) THEN
    RETURN NULL;
  END IF;
  -- (5)
  NEW.fencing_token := nextval('fencing_token_seq');
  RETURN NEW;
END $$;

CREATE FUNCTION lock_entry_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.lock_key <> OLD.lock_key THEN
    RAISE check_violation USING
      MESSAGE = format('a lock is not renamed: %s may not become %s', quote_literal(OLD.lock_key), quote_literal(NEW.lock_key)),
      CONSTRAINT = 'lock_entry_guard', TABLE = TG_TABLE_NAME, SCHEMA = TG_TABLE_SCHEMA;
  END IF;
  -- A renewal that a crash undoes breaks the promise as well (K-1.4).
  PERFORM set_config('synchronous_commit', 'on', true)
    WHERE current_setting('synchronous_commit') IN ('off', 'local', 'remote_write');
  IF (NEW.owner_id, NEW.session_id, NEW.fencing_token, NEW.acquired_at)
     IS DISTINCT FROM (OLD.owner_id, OLD.session_id, OLD.fencing_token, OLD.acquired_at) THEN
    -- A grant by whatever statement. The row is locked: nobody chooses a token.
    PERFORM lock_gate_check();
    IF current_setting('session_replication_role') <> 'replica' THEN
      PERFORM FROM lock_session s WHERE s.session_id = NEW.session_id AND s.expires_at > now() FOR KEY SHARE;
      IF NOT FOUND THEN
        RAISE foreign_key_violation USING
          MESSAGE = format('lock session %s… has lapsed or is gone', left(NEW.session_id::text, 8)),
          CONSTRAINT = 'lock_entry_session_id_fkey', TABLE = TG_TABLE_NAME, SCHEMA = TG_TABLE_SCHEMA;
      END IF;
    END IF;
    NEW.fencing_token := nextval('fencing_token_seq');
  END IF;
  -- What a holder was promised is never cut, by an older renewal that lands
  -- last, a shorter one or a re-entry (K-2.10). To end a grant, delete it.
  IF NEW.owner_id = OLD.owner_id AND NEW.session_id = OLD.session_id THEN
    NEW.expires_at := greatest(NEW.expires_at, OLD.expires_at);
  END IF;
  RETURN NEW;
END $$;

CREATE FUNCTION lock_session_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM set_config('synchronous_commit', 'on', true)
    WHERE current_setting('synchronous_commit') IN ('off', 'local', 'remote_write');
  NEW.expires_at := greatest(NEW.expires_at, OLD.expires_at);
  RETURN NEW;
END $$;

CREATE TRIGGER lock_entry_order BEFORE INSERT ON lock_entry
  FOR EACH ROW EXECUTE FUNCTION lock_entry_order();
CREATE TRIGGER lock_entry_guard BEFORE UPDATE ON lock_entry
  FOR EACH ROW EXECUTE FUNCTION lock_entry_guard();
CREATE TRIGGER lock_session_guard BEFORE UPDATE ON lock_session
  FOR EACH ROW EXECUTE FUNCTION lock_session_guard();
ALTER TABLE lock_entry ENABLE ALWAYS TRIGGER lock_entry_order;
ALTER TABLE lock_entry ENABLE ALWAYS TRIGGER lock_entry_guard;
ALTER TABLE lock_session ENABLE ALWAYS TRIGGER lock_session_guard;

DO $$
BEGIN
  EXECUTE format('ALTER FUNCTION lock_entry_order() SET search_path = pg_catalog, %I, pg_temp', current_schema());
  EXECUTE format('ALTER FUNCTION lock_entry_guard() SET search_path = pg_catalog, %I, pg_temp', current_schema());
  EXECUTE format('ALTER FUNCTION lock_session_guard() SET search_path = pg_catalog, %I, pg_temp', current_schema());
END $$;
