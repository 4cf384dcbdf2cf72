-- An attempt is bound to its payout and to the mark (K-4.10, K-4.11, K-5.3):
-- * the rail's key is payout.idempotency_key, always;
-- * it is born in flight (NULL) or FENCED, and moves NULL to ACKED, REJECTED or
--   TIMEOUT, and TIMEOUT to ACKED or REJECTED. An UPDATE to FENCED would reopen the
--   slot that rail_submission_attempt_uidx keeps shut;
-- * one that may be forwarded carries the token that stands in the mark of the
--   payout's account: a stale holder of A passed (d) by naming B.
-- Locks: SHARE ROW EXCLUSIVE on rail_submission while the triggers are made.

CREATE FUNCTION rail_submission_new_guard() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  paid payout%ROWTYPE;
BEGIN
  IF current_setting('session_replication_role') = 'replica' THEN
    RETURN NEW;
  END IF;
  SELECT * INTO paid FROM payout p WHERE p.payout_id = NEW.payout_id;
  IF NOT FOUND THEN
    RETURN NEW;  -- the foreign key says so better
  END IF;
  IF NEW.idempotency_key <> paid.idempotency_key THEN
    RAISE check_violation USING CONSTRAINT = 'rail_submission_new_guard',
      MESSAGE = format('the rail''s key of payout %s is the payout''s own', NEW.payout_id);
  END IF;
  IF NEW.outcome = 'FENCED' THEN
    RETURN NEW;  -- forwarded nowhere, kept for the audit
  END IF;
  IF NEW.outcome IS NOT NULL THEN
    RAISE check_violation USING CONSTRAINT = 'rail_submission_new_guard',
      MESSAGE = format('an attempt is recorded before the rail is called, it cannot be %s yet', NEW.outcome);
  END IF;
  IF EXISTS (SELECT FROM rail_submission s WHERE s.payout_id = NEW.payout_id AND s.outcome IS DISTINCT FROM 'FENCED') THEN
    RETURN NEW;  -- the slot is taken: the index answers, by ON CONFLICT DO NOTHING or 23505
  END IF;
  IF paid.state NOT IN ('RAIL_SUBMITTED', 'RAIL_AMBIGUOUS') THEN
    RAISE check_violation USING CONSTRAINT = 'rail_submission_new_guard',
      MESSAGE = format('payout %s is %s, it is not for the rail', NEW.payout_id, paid.state);
  END IF;
  IF NOT EXISTS (SELECT FROM rail_high_water h WHERE h.account_id = paid.account_id AND h.highest_token = NEW.presented_token) THEN
    RAISE check_violation USING CONSTRAINT = 'rail_submission_new_guard',
      MESSAGE = format('token %s does not stand in the mark of account %s', NEW.presented_token, paid.account_id);
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER rail_submission_new_guard BEFORE INSERT ON rail_submission
  FOR EACH ROW EXECUTE FUNCTION rail_submission_new_guard();
ALTER TABLE rail_submission ENABLE ALWAYS TRIGGER rail_submission_new_guard;

CREATE FUNCTION rail_submission_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF (NEW.submission_id, NEW.payout_id, NEW.idempotency_key, NEW.presented_token, NEW.submitted_at)
     IS DISTINCT FROM (OLD.submission_id, OLD.payout_id, OLD.idempotency_key, OLD.presented_token, OLD.submitted_at) THEN
    RAISE check_violation USING CONSTRAINT = 'rail_submission_guard',
      MESSAGE = format('what attempt %s submitted is fixed', OLD.submission_id);
  END IF;
  IF (coalesce(OLD.outcome, 'in flight'), coalesce(NEW.outcome, 'in flight')) NOT IN (
       ('in flight', 'ACKED'), ('in flight', 'REJECTED'), ('in flight', 'TIMEOUT'),
       ('TIMEOUT', 'ACKED'), ('TIMEOUT', 'REJECTED')) THEN
    RAISE check_violation USING CONSTRAINT = 'rail_submission_guard',
      MESSAGE = format('attempt %s may not go from %s to %s', OLD.submission_id,
                       coalesce(OLD.outcome, 'in flight'), coalesce(NEW.outcome, 'in flight'));
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER rail_submission_guard BEFORE UPDATE ON rail_submission
  FOR EACH ROW EXECUTE FUNCTION rail_submission_guard();
ALTER TABLE rail_submission ENABLE ALWAYS TRIGGER rail_submission_guard;

CREATE TRIGGER rail_submission_kept BEFORE DELETE OR TRUNCATE ON rail_submission
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
ALTER TABLE rail_submission ENABLE ALWAYS TRIGGER rail_submission_kept;

DO $$
BEGIN
  EXECUTE format('ALTER FUNCTION rail_submission_new_guard() SET search_path = pg_catalog, %I, pg_temp', current_schema());
  EXECUTE format('ALTER FUNCTION rail_submission_guard() SET search_path = pg_catalog, %I, pg_temp', current_schema());
END $$;
