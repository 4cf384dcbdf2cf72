-- Two who make the journal's partitions at the same moment, a reaper and a
-- fast-forward or two reapers, do not both make the same one (K-11): the second
-- was told "relation already exists", and a fast-forward was cut off by it.
-- Locks: none on existing objects.

-- V7's, which looks again once it has the lock.
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
  -- A few at a time: each is a lock until the end of the caller's transaction.
  FOR range IN current .. current + least(greatest(ahead, 0), 8) LOOP
    part := format('%s.lock_grant_%s', home, range);
    CONTINUE WHEN to_regclass(part) IS NOT NULL;
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
