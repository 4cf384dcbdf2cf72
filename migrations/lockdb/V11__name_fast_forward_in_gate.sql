-- A fast-forward closes the gate beside whoever froze it (K-7.4). One that was
-- cut off leaves it shut: only a fast-forward opens it again, not a thaw, and the
-- refusal names that command. A freeze outlives the fast-forward.
-- Locks: ACCESS EXCLUSIVE on lock_gate for a moment; every grant reads it.

ALTER TABLE lock_gate
  ADD COLUMN run_id     UUID,
  ADD COLUMN run_by     TEXT,
  ADD COLUMN run_at     TIMESTAMPTZ,
  ADD COLUMN run_reason TEXT,
  ADD CONSTRAINT lock_gate_run_ck CHECK (num_nulls(run_id, run_by, run_at, run_reason) IN (0, 4));

-- V3's, with one refusal more.
CREATE OR REPLACE FUNCTION lock_gate_check() RETURNS void LANGUAGE plpgsql AS $$
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
              WHERE g.closed_by IS NULL AND g.run_id IS NULL
                AND g.timeline_id = ('x' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8))::bit(32)::int
                AND g.system_identifier = (SELECT c.system_identifier FROM pg_control_system() c)) THEN
    RETURN;
  END IF;
  SELECT * INTO gate FROM lock_gate;
  IF gate.run_id IS NOT NULL THEN
    RAISE object_not_in_prerequisite_state USING
      MESSAGE = format('lockdb grants no locks: a fast-forward that %s began at %s is under way or was cut off: %s', gate.run_by, gate.run_at, gate.run_reason),
      HINT = 'if it is no longer running, run: dlockctl restore fast-forward',
      CONSTRAINT = 'lock_gate';
  END IF;
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

-- OR REPLACE has dropped the setting.
DO $$
BEGIN
  EXECUTE format('ALTER FUNCTION lock_gate_check() SET search_path = pg_catalog, %I, pg_temp', current_schema());
END $$;
