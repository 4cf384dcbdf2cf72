-- Legs commit with their posting or not at all (K-4.7, K-4.10): a partial leg set,
-- and legs of a payout that is not POSTED, could be committed until here. Looked at
-- when the transaction ends, because (b) comes before (c) (C1 1.6): at that moment
-- the payout is POSTED and has its DEBIT and its CREDIT, both under the token that
-- holds it; ledger_direction_uidx (V11) allows no third leg. V22 is the other half,
-- and a version of its own, since a posting locks the two tables in either order.
--
-- Measured with V22 on PostgreSQL 16, two cores under other load, server CPU of a
-- posting (a), (b), (c), clearing balance, (b): one client 753 µs without, 880 with
-- (median of four; the best 637 and 787), eight clients 1,011 and 1,112.
--
-- SET CONSTRAINTS cannot get round it: it only moves the look forward. Old rows are
-- not looked at; reconcile reports those that break the rule.
-- Locks: SHARE ROW EXCLUSIVE on ledger_entry while the trigger is made.

CREATE FUNCTION posting_guard() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  paid payout%ROWTYPE;
BEGIN
  IF current_setting('session_replication_role') = 'replica' THEN
    RETURN NULL;
  END IF;
  IF EXISTS (SELECT
               FROM payout p
               JOIN ledger_entry d ON d.payout_id = p.payout_id AND d.direction = 'DEBIT' AND d.fence = p.claim_token
               JOIN ledger_entry c ON c.payout_id = p.payout_id AND c.direction = 'CREDIT' AND c.fence = p.claim_token
              WHERE p.payout_id = NEW.payout_id AND p.state = 'POSTED') THEN
    RETURN NULL;
  END IF;
  SELECT * INTO paid FROM payout p WHERE p.payout_id = NEW.payout_id;
  RAISE check_violation USING CONSTRAINT = 'posting_guard', TABLE = TG_TABLE_NAME, SCHEMA = TG_TABLE_SCHEMA,
    MESSAGE = format('payout %s is %s under token %s with legs: %s', NEW.payout_id, paid.state, paid.claim_token,
                     coalesce((SELECT string_agg(format('%s under %s', l.direction, l.fence), ', ' ORDER BY l.direction DESC)
                                 FROM ledger_entry l WHERE l.payout_id = NEW.payout_id), 'none')),
    DETAIL = 'A posting is POSTED, one DEBIT and one CREDIT under the token that holds the payout, in one transaction.';
END $$;
CREATE CONSTRAINT TRIGGER ledger_posting_guard AFTER INSERT ON ledger_entry
  DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION posting_guard();
ALTER TABLE ledger_entry ENABLE ALWAYS TRIGGER ledger_posting_guard;

DO $$
BEGIN
  EXECUTE format('ALTER FUNCTION posting_guard() SET search_path = pg_catalog, %I, pg_temp', current_schema());
END $$;
