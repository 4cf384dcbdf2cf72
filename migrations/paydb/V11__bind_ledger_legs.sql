-- A leg is bound to its payout (K-4.10): without this, 70,000 was posted for a
-- payout of 100, and account B debited for a payout of account A. One DEBIT on the
-- payer, one CREDIT on a clearing account of the payout's currency (K-4.7), both
-- with the token that holds the payout: the poster takes the claim over first
-- (K-5.1). Legs are never changed; a correction is a new posting.
-- Locks: SHARE on ledger_entry while the index is built. It fails on a payout with
-- two legs of one direction; find them first with
--   SELECT payout_id, direction FROM ledger_entry GROUP BY 1, 2 HAVING count(*) > 1

-- ledger_leg_uq allows one CREDIT per clearing account; there are several.
CREATE UNIQUE INDEX ledger_direction_uidx ON ledger_entry (payout_id, direction);

CREATE FUNCTION ledger_entry_guard() RETURNS trigger LANGUAGE plpgsql AS $$
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
  IF paid.state NOT IN ('RAIL_ACKED', 'POSTED') THEN
    RAISE check_violation USING CONSTRAINT = 'ledger_entry_guard',
      MESSAGE = format('payout %s is %s, nothing is posted for it', NEW.payout_id, paid.state);
  END IF;
  IF NEW.amount_minor <> paid.amount_minor OR NEW.fence IS DISTINCT FROM paid.claim_token THEN
    RAISE check_violation USING CONSTRAINT = 'ledger_entry_guard',
      MESSAGE = format('payout %s is for %s under token %s, not %s under %s',
                       NEW.payout_id, paid.amount_minor, paid.claim_token, NEW.amount_minor, NEW.fence);
  END IF;
  IF NEW.direction = 'DEBIT' AND NEW.account_id <> paid.account_id THEN
    RAISE check_violation USING CONSTRAINT = 'ledger_entry_guard',
      MESSAGE = format('payout %s debits account %s, not %s', NEW.payout_id, paid.account_id, NEW.account_id);
  END IF;
  IF NEW.direction = 'CREDIT' AND NOT EXISTS (
       SELECT FROM clearing_account c WHERE c.account_id = NEW.account_id AND c.currency = paid.currency) THEN
    RAISE check_violation USING CONSTRAINT = 'ledger_entry_guard',
      MESSAGE = format('payout %s credits a clearing account of %s, which %s is not', NEW.payout_id, paid.currency, NEW.account_id);
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER ledger_entry_guard BEFORE INSERT ON ledger_entry
  FOR EACH ROW EXECUTE FUNCTION ledger_entry_guard();
ALTER TABLE ledger_entry ENABLE ALWAYS TRIGGER ledger_entry_guard;

CREATE TRIGGER ledger_entry_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_entry
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
ALTER TABLE ledger_entry ENABLE ALWAYS TRIGGER ledger_entry_append_only;

DO $$
BEGIN
  EXECUTE format('ALTER FUNCTION ledger_entry_guard() SET search_path = pg_catalog, %I, pg_temp', current_schema());
END $$;
