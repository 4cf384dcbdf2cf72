-- One row per enforcement point: a token at or below it is refused for every
-- account (K-4.12). It is the barrier of a fast-forward (K-7.8): raising only the
-- accounts with open payouts let a lost token 90 claim a payout made after the
-- restore. (a) and (d) of C1 1.6 and the claim give 0 rows. An account's fence
-- needs no raise to the floor itself: the floor already refuses what it would.
-- Locks: SHARE ROW EXCLUSIVE on account, payout, rail_high_water and
-- rail_submission while the triggers are made.

CREATE TABLE fence_floor (
    point       TEXT        PRIMARY KEY,
    floor_token BIGINT      NOT NULL DEFAULT 0,
    raised_at   TIMESTAMPTZ NOT NULL DEFAULT now(),
    raised_by   TEXT        NOT NULL,
    reason      TEXT        NOT NULL,
    CONSTRAINT fence_floor_point_ck  CHECK (point IN ('account', 'rail')),
    CONSTRAINT fence_floor_token_ck  CHECK (floor_token BETWEEN 0 AND 9007199254740992),
    CONSTRAINT fence_floor_by_ck     CHECK (raised_by ~ '\S'),
    CONSTRAINT fence_floor_reason_ck CHECK (reason ~ '\S')
);

-- Both rows stand for ever, so that the primary key refuses any other.
INSERT INTO fence_floor (point, raised_by, reason)
VALUES ('account', 'V15', 'no token is refused yet'), ('rail', 'V15', 'no token is refused yet');

CREATE FUNCTION fence_floor_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE check_violation USING CONSTRAINT = 'fence_floor_guard',
    MESSAGE = format('the floor of %s may not go back from %s to %s', OLD.point, OLD.floor_token, NEW.floor_token);
END $$;
CREATE TRIGGER fence_floor_guard BEFORE UPDATE ON fence_floor
  FOR EACH ROW WHEN (NEW.floor_token < OLD.floor_token OR NEW.point <> OLD.point)
  EXECUTE FUNCTION fence_floor_guard();
ALTER TABLE fence_floor ENABLE ALWAYS TRIGGER fence_floor_guard;
CREATE TRIGGER fence_floor_kept BEFORE DELETE OR TRUNCATE ON fence_floor
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
ALTER TABLE fence_floor ENABLE ALWAYS TRIGGER fence_floor_kept;

-- True when the point refuses the token. A floor that cannot be read refuses too.
CREATE FUNCTION below_fence_floor(at_point TEXT, token BIGINT) RETURNS BOOLEAN LANGUAGE plpgsql AS $$
BEGIN
  IF current_setting('session_replication_role') = 'replica' THEN
    RETURN false;
  END IF;
  -- A snapshot from before the floor was raised would not show it: the barrier of
  -- K-7.8 waits for locks, and a transaction may hold none yet.
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE object_not_in_prerequisite_state USING CONSTRAINT = 'fence_floor_isolation',
      MESSAGE = format('a fence is advanced under READ COMMITTED only, not under %s', upper(current_setting('transaction_isolation'))),
      HINT = 'begin the transaction with ISOLATION LEVEL READ COMMITTED';
  END IF;
  RETURN NOT EXISTS (SELECT FROM fence_floor f WHERE f.point = at_point AND f.floor_token < token);
END $$;

CREATE FUNCTION account_floor() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF below_fence_floor('account', NEW.fence) THEN
    RETURN NULL;
  END IF;
  RETURN NEW;
END $$;
-- A clearing account's balance moves without a fence, and passes by here.
CREATE TRIGGER account_floor BEFORE UPDATE ON account
  FOR EACH ROW WHEN (NEW.fence > OLD.fence) EXECUTE FUNCTION account_floor();
ALTER TABLE account ENABLE ALWAYS TRIGGER account_floor;

CREATE FUNCTION payout_floor() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF below_fence_floor('account', NEW.claim_token) THEN
    RETURN NULL;
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER payout_floor BEFORE UPDATE ON payout
  FOR EACH ROW WHEN (NEW.claim_token IS NOT NULL AND NEW.claim_token IS DISTINCT FROM OLD.claim_token)
  EXECUTE FUNCTION payout_floor();
ALTER TABLE payout ENABLE ALWAYS TRIGGER payout_floor;

CREATE FUNCTION rail_high_water_floor() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF below_fence_floor('rail', NEW.highest_token) THEN
    RETURN NULL;
  END IF;
  RETURN NEW;
END $$;
-- BEFORE INSERT stops both branches of (d): INSERT … ON CONFLICT fires it first.
CREATE TRIGGER rail_high_water_floor BEFORE INSERT OR UPDATE ON rail_high_water
  FOR EACH ROW EXECUTE FUNCTION rail_high_water_floor();
ALTER TABLE rail_high_water ENABLE ALWAYS TRIGGER rail_high_water_floor;

-- A mark set before the floor rose still stands, so V12's compare is not enough.
CREATE FUNCTION rail_submission_floor() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF below_fence_floor('rail', NEW.presented_token) THEN
    RETURN NULL;
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER rail_submission_floor BEFORE INSERT ON rail_submission
  FOR EACH ROW WHEN (NEW.outcome IS DISTINCT FROM 'FENCED') EXECUTE FUNCTION rail_submission_floor();
ALTER TABLE rail_submission ENABLE ALWAYS TRIGGER rail_submission_floor;

DO $$
BEGIN
  EXECUTE format('ALTER FUNCTION fence_floor_guard() SET search_path = pg_catalog, %I, pg_temp', current_schema());
  EXECUTE format('ALTER FUNCTION below_fence_floor(TEXT, BIGINT) SET search_path = pg_catalog, %I, pg_temp', current_schema());
  EXECUTE format('ALTER FUNCTION account_floor() SET search_path = pg_catalog, %I, pg_temp', current_schema());
  EXECUTE format('ALTER FUNCTION payout_floor() SET search_path = pg_catalog, %I, pg_temp', current_schema());
  EXECUTE format('ALTER FUNCTION rail_high_water_floor() SET search_path = pg_catalog, %I, pg_temp', current_schema());
  EXECUTE format('ALTER FUNCTION rail_submission_floor() SET search_path = pg_catalog, %I, pg_temp', current_schema());
END $$;
