-- What a payout pays is fixed, and it moves along the arrows of K-5 only (K-4.10,
-- K-5.1): C1 accepts POSTED to PENDING, and a payout in USD on an account in EUR.
-- Locks: SHARE ROW EXCLUSIVE on payout while the triggers are made.

CREATE FUNCTION payout_new_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF current_setting('session_replication_role') = 'replica' THEN
    RETURN NEW;
  END IF;
  IF NEW.state <> 'PENDING' OR NEW.attempt_count <> 0 THEN
    RAISE check_violation USING CONSTRAINT = 'payout_new_guard',
      MESSAGE = format('a new payout is PENDING with no attempt, not %s with %s', NEW.state, NEW.attempt_count);
  END IF;
  IF EXISTS (SELECT FROM account a WHERE a.account_id = NEW.account_id AND a.currency <> NEW.currency) THEN
    RAISE check_violation USING CONSTRAINT = 'payout_new_guard',
      MESSAGE = format('account %s does not hold %s', NEW.account_id, NEW.currency);
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER payout_new_guard BEFORE INSERT ON payout
  FOR EACH ROW EXECUTE FUNCTION payout_new_guard();
ALTER TABLE payout ENABLE ALWAYS TRIGGER payout_new_guard;

CREATE FUNCTION payout_guard() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  claim_changed BOOLEAN := (NEW.claim_token, NEW.claimed_by) IS DISTINCT FROM (OLD.claim_token, OLD.claimed_by);
BEGIN
  IF (NEW.payout_id, NEW.account_id, NEW.amount_minor, NEW.currency, NEW.idempotency_key, NEW.created_at)
     IS DISTINCT FROM (OLD.payout_id, OLD.account_id, OLD.amount_minor, OLD.currency, OLD.idempotency_key, OLD.created_at)
     OR NEW.attempt_count < OLD.attempt_count THEN
    RAISE check_violation USING CONSTRAINT = 'payout_guard',
      MESSAGE = format('what payout %s pays is fixed, and its attempts only grow', OLD.payout_id);
  END IF;

  -- internal/paystore holds the same table for readers; a test compares the two.
  IF NEW.state <> OLD.state AND (OLD.state, NEW.state) NOT IN (
       ('PENDING',        'CLAIMED'),
       ('PENDING',        'FAILED'),
       ('CLAIMED',        'PENDING'),
       ('CLAIMED',        'RAIL_SUBMITTED'),
       ('CLAIMED',        'FAILED'),
       ('RAIL_SUBMITTED', 'RAIL_ACKED'),
       ('RAIL_SUBMITTED', 'RAIL_AMBIGUOUS'),
       ('RAIL_SUBMITTED', 'FAILED'),
       ('RAIL_AMBIGUOUS', 'RAIL_ACKED'),
       ('RAIL_AMBIGUOUS', 'FAILED'),
       ('RAIL_AMBIGUOUS', 'ABANDONED'),
       ('RAIL_ACKED',     'POSTED'),
       ('RAIL_ACKED',     'FAILED')) THEN
    RAISE check_violation USING CONSTRAINT = 'payout_guard',
      MESSAGE = format('payout %s may not go from %s to %s', OLD.payout_id, OLD.state, NEW.state);
  END IF;

  -- The claim is set by PENDING to CLAIMED, forgotten by CLAIMED to PENDING
  -- (payout_pending_ck), replaced by a takeover that leaves the state alone,
  -- and otherwise carried along.
  IF claim_changed
     AND (OLD.state, NEW.state) NOT IN (('PENDING', 'CLAIMED'), ('CLAIMED', 'PENDING'))
     AND NOT (NEW.state = OLD.state
              AND OLD.state IN ('CLAIMED', 'RAIL_SUBMITTED', 'RAIL_ACKED', 'RAIL_AMBIGUOUS')
              AND coalesce(NEW.claim_token > OLD.claim_token, false)) THEN
    RAISE check_violation USING CONSTRAINT = 'payout_guard',
      MESSAGE = format('the claim of payout %s in %s is taken over by a higher token in the same state only', OLD.payout_id, OLD.state);
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER payout_guard BEFORE UPDATE ON payout
  FOR EACH ROW EXECUTE FUNCTION payout_guard();
ALTER TABLE payout ENABLE ALWAYS TRIGGER payout_guard;

-- No arrow leads out of the picture.
CREATE TRIGGER payout_kept BEFORE DELETE OR TRUNCATE ON payout
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
ALTER TABLE payout ENABLE ALWAYS TRIGGER payout_kept;

DO $$
BEGIN
  EXECUTE format('ALTER FUNCTION payout_new_guard() SET search_path = pg_catalog, %I, pg_temp', current_schema());
  EXECUTE format('ALTER FUNCTION payout_guard() SET search_path = pg_catalog, %I, pg_temp', current_schema());
END $$;
