-- The journal of grants (K-11) is written once for each statement on lock_entry
-- instead of once for each row, and by plans that a connection makes once. What it
-- says of a grant is what V7's row triggers say; they go on for logical apply,
-- which fires row triggers alone. Planning the end of a grant anew for each row was
-- three quarters of a batch's release, and a third of a single one.
-- Locks: ACCESS EXCLUSIVE on lock_entry for a moment; every acquire waits for it.

CREATE OR REPLACE FUNCTION lock_grants_begin() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  IF current_setting('session_replication_role') <> 'replica' THEN
    INSERT INTO lock_grant (fencing_token, lock_key, owner_id, session_id, granted_at)
    SELECT fencing_token, lock_key, owner_id, session_id, acquired_at FROM begun;
  END IF;
  RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION lock_grants_end() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
  lowest  BIGINT;
  highest BIGINT;
BEGIN
  IF current_setting('session_replication_role') = 'replica' THEN
    RETURN NULL;
  END IF;
  -- The range lets the plan leave out the other partitions before it opens them.
  SELECT min(fencing_token), max(fencing_token) INTO lowest, highest FROM over;
  -- The cases are V7's, in its order.
  UPDATE lock_grant g
     SET ended_at = now(),
         ended = CASE
           WHEN EXISTS (SELECT FROM lock_revocation r WHERE r.prev_token = o.fencing_token AND r.lock_key = o.lock_key)
             THEN CASE WHEN current_setting('dlock.ending', true) = 'void' AND pg_has_role(session_user, 'dlock_owner', 'MEMBER')
                       THEN 'voided' ELSE 'revoked' END
           WHEN NOT EXISTS (SELECT FROM lock_session s WHERE s.session_id = o.session_id) THEN 'reaped'
           WHEN o.expires_at <= now() THEN 'expired'
           ELSE 'released' END
    FROM over o
   WHERE g.fencing_token = o.fencing_token AND g.ended IS NULL AND g.fencing_token BETWEEN lowest AND highest;
  RETURN NULL;
END $$;

-- A plan is kept for as long as the connection lives: it looks each token up by
-- index, however few rows there were when it was made.
ALTER FUNCTION lock_grants_end() SET plan_cache_mode = force_generic_plan;
ALTER FUNCTION lock_grants_end() SET enable_seqscan = off;
ALTER FUNCTION lock_grants_end() SET enable_hashjoin = off;
ALTER FUNCTION lock_grants_end() SET enable_mergejoin = off;
ALTER FUNCTION lock_grant_move() SET plan_cache_mode = force_generic_plan;
ALTER FUNCTION lock_grant_move() SET enable_seqscan = off;
ALTER FUNCTION lock_grant_end() SET plan_cache_mode = force_generic_plan;
ALTER FUNCTION lock_grant_end() SET enable_seqscan = off;
DO $$
DECLARE
  made TEXT;
BEGIN
  FOREACH made IN ARRAY ARRAY['lock_grants_begin()', 'lock_grants_end()'] LOOP
    EXECUTE format('ALTER FUNCTION %s SET search_path = pg_catalog, %I, pg_temp', made, current_schema());
  END LOOP;
END $$;

-- As V7's: whoever may execute them could forge grants.
REVOKE EXECUTE ON FUNCTION lock_grants_begin(), lock_grants_end() FROM PUBLIC;

DROP TRIGGER IF EXISTS lock_grant_begin ON lock_entry;
DROP TRIGGER IF EXISTS lock_grant_end ON lock_entry;
CREATE TRIGGER lock_grant_begin AFTER INSERT ON lock_entry
  REFERENCING NEW TABLE AS begun FOR EACH STATEMENT EXECUTE FUNCTION lock_grants_begin();
CREATE TRIGGER lock_grant_end AFTER DELETE ON lock_entry
  REFERENCING OLD TABLE AS over FOR EACH STATEMENT EXECUTE FUNCTION lock_grants_end();
ALTER TABLE lock_entry ENABLE ALWAYS TRIGGER lock_grant_begin;
ALTER TABLE lock_entry ENABLE ALWAYS TRIGGER lock_grant_end;

-- For the replica role alone, which the two above leave to them.
CREATE OR REPLACE TRIGGER lock_grant_begin_applied AFTER INSERT ON lock_entry
  FOR EACH ROW EXECUTE FUNCTION lock_grant_begin();
CREATE OR REPLACE TRIGGER lock_grant_end_applied AFTER DELETE ON lock_entry
  FOR EACH ROW EXECUTE FUNCTION lock_grant_end();
ALTER TABLE lock_entry ENABLE REPLICA TRIGGER lock_grant_begin_applied;
ALTER TABLE lock_entry ENABLE REPLICA TRIGGER lock_grant_end_applied;

-- V13's, which locks the journal before its DEFAULT, as whoever writes to it does: the
-- generic plan above locks every partition behind the journal itself, and with DEFAULT
-- locked first the maker of a partition and a release deadlocked.
CREATE OR REPLACE FUNCTION lock_grant_extend(ahead INTEGER DEFAULT 2) RETURNS INTEGER LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
  width   CONSTANT BIGINT := 50000000;
  -- search_path begins with pg_catalog: name the schema to create in.
  home    TEXT := (SELECT c.relnamespace::regnamespace::text FROM pg_class c WHERE c.oid = 'lock_grant'::regclass);
  current BIGINT := (SELECT last_value FROM fencing_token_seq) / width;
  made    INTEGER := 0;
  lowest  BIGINT;
  part    TEXT;
BEGIN
  -- A sequence that is being restarted shows no row for a moment.
  IF current IS NULL THEN
    RETURN 0;
  END IF;
  -- A few at a time: each is a lock until the end of the caller's transaction.
  FOR range IN current .. current + least(greatest(ahead, 0), 8) LOOP
    part := format('%s.lock_grant_%s', home, range);
    CONTINUE WHEN to_regclass(part) IS NOT NULL;
    LOCK TABLE ONLY lock_grant IN ACCESS EXCLUSIVE MODE;
    LOCK TABLE lock_grant_default IN ACCESS EXCLUSIVE MODE;
    -- Another has made it while this one waited.
    CONTINUE WHEN to_regclass(part) IS NOT NULL;
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

-- OR REPLACE has dropped the settings.
ALTER FUNCTION lock_grant_extend(INTEGER) SET lock_timeout = '1s';
DO $$
BEGIN
  EXECUTE format('ALTER FUNCTION lock_grant_extend(INTEGER) SET search_path = pg_catalog, %I, pg_temp', current_schema());
END $$;
