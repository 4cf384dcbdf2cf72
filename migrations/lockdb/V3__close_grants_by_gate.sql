-- The gate (K-7.4, K-7.6): one row that every grant looks at before it draws a
-- token. It remembers which instance and timeline it was opened on, so that a
-- restored or promoted lockdb grants nobody anything until an operator has
-- fast-forwarded the sequence. No row at all is a closed gate.
-- Locks: SHARE ROW EXCLUSIVE on lock_entry while the trigger is created.

CREATE TABLE lock_gate (
    one               BOOLEAN     PRIMARY KEY DEFAULT true,
    system_identifier BIGINT      NOT NULL,
    timeline_id       INTEGER     NOT NULL,
    closed_by         TEXT,
    closed_at         TIMESTAMPTZ,
    closed_reason     TEXT,
    CONSTRAINT lock_gate_one_ck    CHECK (one),
    CONSTRAINT lock_gate_closed_ck CHECK ((closed_by IS NULL) = (closed_at IS NULL) AND (closed_by IS NULL) = (closed_reason IS NULL))
);

-- The WAL file's name knows the timeline at once after a promotion;
-- pg_control_checkpoint() says the old one until the next checkpoint.
INSERT INTO lock_gate (system_identifier, timeline_id)
SELECT c.system_identifier, ('x' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8))::bit(32)::int
  FROM pg_control_system() c;

-- Raises 55000 on constraint lock_gate unless the gate is open, here.
CREATE FUNCTION lock_gate_check() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  gate lock_gate%ROWTYPE;
BEGIN
  -- A snapshot taken before the gate was closed would not see it closed, nor
  -- the holder of a key: only a statement's own snapshot will do (K-2.11).
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE object_not_in_prerequisite_state USING
      MESSAGE = format('a lock is granted under READ COMMITTED only, not under %s', upper(current_setting('transaction_isolation'))),
      HINT = 'begin the transaction with ISOLATION LEVEL READ COMMITTED',
      CONSTRAINT = 'lock_gate_isolation';
  END IF;
  IF EXISTS (SELECT FROM lock_gate g
              WHERE g.closed_by IS NULL
                AND g.timeline_id = ('x' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8))::bit(32)::int
                AND g.system_identifier = (SELECT c.system_identifier FROM pg_control_system() c)) THEN
    RETURN;
  END IF;
  SELECT * INTO gate FROM lock_gate;
  IF gate.closed_by IS NOT NULL THEN
    RAISE object_not_in_prerequisite_state USING
      MESSAGE = format('lockdb grants no locks: closed by %s at %s: %s', gate.closed_by, gate.closed_at, gate.closed_reason),
      HINT = 'when the reason is over, run: dlockctl thaw --reason TEXT',
      CONSTRAINT = 'lock_gate';
  END IF;
  RAISE object_not_in_prerequisite_state USING
    MESSAGE = 'lockdb grants no locks: it was restored, promoted or copied since it last granted, and may issue tokens again that are still in use',
    HINT = 'run: dlockctl restore plan',
    CONSTRAINT = 'lock_gate';
END $$;

CREATE FUNCTION lock_entry_gate() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM lock_gate_check();
  RETURN NULL;
END $$;

-- A statement trigger fires before the VALUES list draws its number, once for
-- a whole batch.
CREATE TRIGGER lock_entry_gate BEFORE INSERT ON lock_entry
  FOR EACH STATEMENT EXECUTE FUNCTION lock_entry_gate();
ALTER TABLE lock_entry ENABLE ALWAYS TRIGGER lock_entry_gate;

-- Logical apply and pg_restore run with an empty search_path (K-1.1).
DO $$
BEGIN
  EXECUTE format('ALTER FUNCTION lock_gate_check() SET search_path = pg_catalog, %I, pg_temp', current_schema());
  EXECUTE format('ALTER FUNCTION lock_entry_gate() SET search_path = pg_catalog, %I, pg_temp', current_schema());
END $$;
