-- The gate of paydb (K-7.9). A restored paydb shows POSTED payouts as PENDING and
-- has lost their attempts: each would be paid twice. The gate's row remembers the
-- instance and timeline it was opened on. Elsewhere, or closed by hand, claims and
-- attempts are refused for a payout whose resolution against the rail's own record
-- has not been recorded here, since the gate was closed.
--
-- A payout created after the restore is refused as well: a client whose payout was
-- lost sends the same idempotency key again, and the rail may have paid it. For the
-- rail to say NOT_FOUND costs one question; a date would not tell the two apart.
-- UNDETERMINED frees nothing, except that the account's holder may take over a
-- RAIL_AMBIGUOUS payout, which leads to the rail no more, to abandon it.
-- Posting, giving up and every other transition go on; the floor (V15) refuses the
-- tokens from before.
-- Locks: SHARE ROW EXCLUSIVE on payout and rail_submission while the triggers are made.

CREATE TABLE pay_gate (
    one               BOOLEAN     PRIMARY KEY DEFAULT true,
    system_identifier BIGINT      NOT NULL,
    timeline_id       INTEGER     NOT NULL,
    closed_by         TEXT,
    closed_at         TIMESTAMPTZ,
    closed_reason     TEXT,
    CONSTRAINT pay_gate_one_ck    CHECK (one),
    CONSTRAINT pay_gate_closed_ck CHECK ((closed_by IS NULL) = (closed_at IS NULL) AND (closed_by IS NULL) = (closed_reason IS NULL))
);
INSERT INTO pay_gate (system_identifier, timeline_id) VALUES (instance_system_identifier(), instance_timeline());

-- Recorded in this life of the database, and not before the gate was closed by hand.
CREATE FUNCTION payout_resolved(id UUID, any_verdict BOOLEAN) RETURNS BOOLEAN LANGUAGE sql VOLATILE AS $$
  SELECT EXISTS (
    SELECT FROM payout_resolution r
     WHERE r.payout_id = id
       AND r.system_identifier = instance_system_identifier()
       AND r.timeline_id = instance_timeline()
       AND r.recorded_at >= coalesce((SELECT g.closed_at FROM pay_gate g), '-infinity')
       AND (any_verdict OR r.verdict <> 'UNDETERMINED'))
$$;

-- Raises 55000 unless the gate is open, here, or the payout is resolved.
CREATE FUNCTION pay_gate_check(id UUID, any_verdict BOOLEAN) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  gate pay_gate%ROWTYPE;
BEGIN
  IF current_setting('session_replication_role') = 'replica' THEN
    RETURN;
  END IF;
  -- No row at all is a closed gate. The identity is spelled out: through the two
  -- functions every claim's check took 70 µs instead of 42.
  IF EXISTS (SELECT FROM pay_gate g
              WHERE g.closed_by IS NULL
                AND g.timeline_id = ('x' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8))::bit(32)::int
                AND g.system_identifier = (SELECT c.system_identifier FROM pg_control_system() c))
     OR payout_resolved(id, any_verdict) THEN
    RETURN;
  END IF;
  SELECT * INTO gate FROM pay_gate;
  IF gate.closed_by IS NOT NULL THEN
    RAISE object_not_in_prerequisite_state USING CONSTRAINT = 'pay_gate',
      MESSAGE = format('payout %s is neither claimed nor attempted: closed by %s at %s: %s', id, gate.closed_by, gate.closed_at, gate.closed_reason),
      HINT = 'when the reason is over, run: dlockctl thaw --reason TEXT';
  END IF;
  RAISE object_not_in_prerequisite_state USING CONSTRAINT = 'pay_gate',
    MESSAGE = format('payout %s is neither claimed nor attempted: paydb was restored, promoted or copied, and may have forgotten that it was paid', id),
    HINT = 'run: dlockctl restore plan';
END $$;

CREATE FUNCTION payout_gate() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pay_gate_check(NEW.payout_id, OLD.state = 'RAIL_AMBIGUOUS');
  RETURN NEW;
END $$;
CREATE TRIGGER payout_gate BEFORE UPDATE ON payout
  FOR EACH ROW WHEN (NEW.claim_token IS NOT NULL AND NEW.claim_token IS DISTINCT FROM OLD.claim_token)
  EXECUTE FUNCTION payout_gate();
ALTER TABLE payout ENABLE ALWAYS TRIGGER payout_gate;

CREATE FUNCTION rail_submission_gate() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pay_gate_check(NEW.payout_id, false);
  RETURN NEW;
END $$;
CREATE TRIGGER rail_submission_gate BEFORE INSERT ON rail_submission
  FOR EACH ROW WHEN (NEW.outcome IS DISTINCT FROM 'FENCED') EXECUTE FUNCTION rail_submission_gate();
ALTER TABLE rail_submission ENABLE ALWAYS TRIGGER rail_submission_gate;

-- To open the gate on a new instance or timeline is to note it here: the true one,
-- and only when no payout is left that is neither final nor resolved.
CREATE FUNCTION pay_gate_guard() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  unresolved BIGINT;
BEGIN
  IF (NEW.system_identifier, NEW.timeline_id) IS DISTINCT FROM (instance_system_identifier(), instance_timeline()) THEN
    RAISE check_violation USING CONSTRAINT = 'pay_gate_guard',
      MESSAGE = format('this is instance %s on timeline %s, not %s on %s',
                       instance_system_identifier(), instance_timeline(), NEW.system_identifier, NEW.timeline_id);
  END IF;
  -- A payout that is being created now would be missed by the count.
  LOCK TABLE payout IN SHARE ROW EXCLUSIVE MODE;
  SELECT count(*) INTO unresolved
    FROM payout p
   WHERE p.state NOT IN ('POSTED', 'FAILED', 'ABANDONED') AND NOT payout_resolved(p.payout_id, false);
  IF unresolved > 0 THEN
    RAISE object_not_in_prerequisite_state USING CONSTRAINT = 'pay_gate_guard',
      MESSAGE = format('%s payouts are neither final nor resolved against the rail''s record', unresolved),
      HINT = 'run: dlockctl payout resolve --from-rail';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER pay_gate_guard BEFORE UPDATE ON pay_gate
  FOR EACH ROW WHEN (NEW.system_identifier <> OLD.system_identifier OR NEW.timeline_id <> OLD.timeline_id)
  EXECUTE FUNCTION pay_gate_guard();
ALTER TABLE pay_gate ENABLE ALWAYS TRIGGER pay_gate_guard;
-- A row written anew would be an open gate.
CREATE TRIGGER pay_gate_kept BEFORE DELETE OR TRUNCATE ON pay_gate
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
ALTER TABLE pay_gate ENABLE ALWAYS TRIGGER pay_gate_kept;

DO $$
BEGIN
  EXECUTE format('ALTER FUNCTION payout_resolved(UUID, BOOLEAN) SET search_path = pg_catalog, %I, pg_temp', current_schema());
  EXECUTE format('ALTER FUNCTION pay_gate_check(UUID, BOOLEAN) SET search_path = pg_catalog, %I, pg_temp', current_schema());
  EXECUTE format('ALTER FUNCTION payout_gate() SET search_path = pg_catalog, %I, pg_temp', current_schema());
  EXECUTE format('ALTER FUNCTION rail_submission_gate() SET search_path = pg_catalog, %I, pg_temp', current_schema());
  EXECUTE format('ALTER FUNCTION pay_gate_guard() SET search_path = pg_catalog, %I, pg_temp', current_schema());
END $$;
