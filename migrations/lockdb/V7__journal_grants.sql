-- The grant journal (K-11): lock_entry forgets a holder when the row moves on,
-- and reconcile must name the holder of an old token. Filled by triggers, for
-- every writer; nobody has INSERT on it.
--
-- Partitioned by token, so that one token can never stand twice and old ranges
-- can be dropped; DEFAULT, so that a missing partition never stops a grant.
-- Locks: SHARE ROW EXCLUSIVE on lock_entry while the triggers are created and
-- the grants that stand are copied.

CREATE TABLE lock_grant (
    fencing_token BIGINT      NOT NULL,
    lock_key      TEXT        NOT NULL,
    owner_id      TEXT        NOT NULL,
    session_id    UUID        NOT NULL,
    granted_at    TIMESTAMPTZ NOT NULL,
    ended_at      TIMESTAMPTZ,
    ended         TEXT,
    CONSTRAINT lock_grant_pk       PRIMARY KEY (fencing_token),
    CONSTRAINT lock_grant_ended_ck CHECK (ended IN ('released', 'expired', 'taken_over', 're_entered', 'revoked', 'reaped', 'voided')),
    CONSTRAINT lock_grant_end_ck   CHECK ((ended IS NULL) = (ended_at IS NULL))
) PARTITION BY RANGE (fencing_token);

CREATE TABLE lock_grant_default PARTITION OF lock_grant DEFAULT;

-- Append-only but for the end, which is written once. Row triggers are cloned
-- to every partition, so that none can be named directly to get round them.
CREATE FUNCTION lock_grant_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'UPDATE' AND OLD.ended IS NULL AND NEW.ended IS NOT NULL
     AND (NEW.fencing_token, NEW.lock_key, NEW.owner_id, NEW.session_id, NEW.granted_at)
         IS NOT DISTINCT FROM (OLD.fencing_token, OLD.lock_key, OLD.owner_id, OLD.session_id, OLD.granted_at) THEN
    RETURN NEW;
  END IF;
  RAISE insufficient_privilege USING
    MESSAGE = format('the journal of grants is append-only: %s of token %s refused', TG_OP, OLD.fencing_token),
    TABLE = TG_TABLE_NAME, SCHEMA = TG_TABLE_SCHEMA;
END $$;
CREATE TRIGGER lock_grant_guard BEFORE UPDATE OR DELETE ON lock_grant
  FOR EACH ROW EXECUTE FUNCTION lock_grant_guard();
ALTER TABLE lock_grant ENABLE ALWAYS TRIGGER lock_grant_guard;

-- TRUNCATE triggers are not cloned: one for the parent, one for each partition.
CREATE TRIGGER lock_grant_no_truncate BEFORE TRUNCATE ON lock_grant
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
ALTER TABLE lock_grant ENABLE ALWAYS TRIGGER lock_grant_no_truncate;
CREATE TRIGGER lock_grant_no_truncate BEFORE TRUNCATE ON lock_grant_default
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
ALTER TABLE lock_grant_default ENABLE ALWAYS TRIGGER lock_grant_no_truncate;

-- Makes the partition of the token last issued and of the ranges ahead of it,
-- fifty million tokens each, and returns how many it made. The reaper calls it.
-- It starts above the highest token that DEFAULT holds, since a range with rows
-- there cannot be made a partition; and gives up after a second behind a reader.
CREATE FUNCTION lock_grant_extend(ahead INTEGER DEFAULT 2) RETURNS INTEGER LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
  width   CONSTANT BIGINT := 50000000;
  -- search_path begins with pg_catalog: name the schema to create in.
  home    TEXT := (SELECT c.relnamespace::regnamespace::text FROM pg_class c WHERE c.oid = 'lock_grant'::regclass);
  current BIGINT := (SELECT last_value FROM fencing_token_seq) / width;
  made    INTEGER := 0;
  lowest  BIGINT;
  part    TEXT;
BEGIN
  -- A few at a time: each is a lock until the end of the caller's transaction.
  FOR range IN current .. current + least(greatest(ahead, 0), 8) LOOP
    part := format('%s.lock_grant_%s', home, range);
    CONTINUE WHEN to_regclass(part) IS NOT NULL;
    LOCK TABLE lock_grant_default IN ACCESS EXCLUSIVE MODE;
    SELECT greatest(range * width, max(fencing_token) + 1) INTO lowest
      FROM lock_grant_default WHERE fencing_token >= range * width AND fencing_token < (range + 1) * width;
    CONTINUE WHEN lowest >= (range + 1) * width;
    EXECUTE format('CREATE TABLE %s PARTITION OF lock_grant FOR VALUES FROM (%s) TO (%s)', part, lowest, (range + 1) * width);
    EXECUTE format('CREATE TRIGGER lock_grant_no_truncate BEFORE TRUNCATE ON %s FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()', part);
    EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER lock_grant_no_truncate', part);
    made := made + 1;
  END LOOP;
  RETURN made;
END $$;
ALTER FUNCTION lock_grant_extend(INTEGER) SET lock_timeout = '1s';

CREATE FUNCTION lock_grant_begin() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  INSERT INTO lock_grant (fencing_token, lock_key, owner_id, session_id, granted_at)
  VALUES (NEW.fencing_token, NEW.lock_key, NEW.owner_id, NEW.session_id, NEW.acquired_at);
  RETURN NULL;
END $$;

CREATE FUNCTION lock_grant_move() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  UPDATE lock_grant
     SET ended_at = now(),
         ended = CASE WHEN NEW.owner_id = OLD.owner_id AND NEW.session_id = OLD.session_id THEN 're_entered' ELSE 'taken_over' END
   WHERE fencing_token = OLD.fencing_token AND ended IS NULL;
  INSERT INTO lock_grant (fencing_token, lock_key, owner_id, session_id, granted_at)
  VALUES (NEW.fencing_token, NEW.lock_key, NEW.owner_id, NEW.session_id, NEW.acquired_at);
  RETURN NULL;
END $$;

CREATE FUNCTION lock_grant_end() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  UPDATE lock_grant
     SET ended_at = now(),
         ended = CASE
           -- Fast-forward writes audit rows too, and says so for its transaction;
           -- only who may become the owner is believed.
           WHEN EXISTS (SELECT FROM lock_revocation r WHERE r.prev_token = OLD.fencing_token AND r.lock_key = OLD.lock_key)
             THEN CASE WHEN current_setting('dlock.ending', true) = 'void' AND pg_has_role(session_user, 'dlock_owner', 'MEMBER')
                       THEN 'voided' ELSE 'revoked' END
           -- A cascade leaves no session behind; a release does.
           WHEN NOT EXISTS (SELECT FROM lock_session s WHERE s.session_id = OLD.session_id) THEN 'reaped'
           WHEN OLD.expires_at <= now() THEN 'expired'
           ELSE 'released' END
   WHERE fencing_token = OLD.fencing_token AND ended IS NULL;
  RETURN NULL;
END $$;

DO $$
DECLARE
  made TEXT;
BEGIN
  FOREACH made IN ARRAY ARRAY['lock_grant_guard()', 'lock_grant_extend(INTEGER)', 'lock_grant_begin()', 'lock_grant_move()', 'lock_grant_end()'] LOOP
    EXECUTE format('ALTER FUNCTION %s SET search_path = pg_catalog, %I, pg_temp', made, current_schema());
  END LOOP;
END $$;

-- Whoever may execute them could attach them to a table of his own, and forge
-- grants.
REVOKE EXECUTE ON FUNCTION lock_grant_begin(), lock_grant_move(), lock_grant_end() FROM PUBLIC;

SELECT lock_grant_extend();

CREATE TRIGGER lock_grant_begin AFTER INSERT ON lock_entry
  FOR EACH ROW EXECUTE FUNCTION lock_grant_begin();
CREATE TRIGGER lock_grant_move AFTER UPDATE ON lock_entry
  FOR EACH ROW WHEN (NEW.fencing_token IS DISTINCT FROM OLD.fencing_token) EXECUTE FUNCTION lock_grant_move();
CREATE TRIGGER lock_grant_end AFTER DELETE ON lock_entry
  FOR EACH ROW EXECUTE FUNCTION lock_grant_end();
ALTER TABLE lock_entry ENABLE ALWAYS TRIGGER lock_grant_begin;
ALTER TABLE lock_entry ENABLE ALWAYS TRIGGER lock_grant_move;
ALTER TABLE lock_entry ENABLE ALWAYS TRIGGER lock_grant_end;

-- The grants that stand. Creating the triggers has locked lock_entry against
-- writers until commit, so that none is missed or copied twice.
INSERT INTO lock_grant (fencing_token, lock_key, owner_id, session_id, granted_at)
SELECT fencing_token, lock_key, owner_id, session_id, acquired_at FROM lock_entry;
