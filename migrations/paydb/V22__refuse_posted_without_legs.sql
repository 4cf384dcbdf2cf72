-- POSTED commits with both legs or not at all (K-4.7, K-4.10): the other half of V21.
-- Old rows are not looked at; reconcile reports those that break the rule.
-- Locks: SHARE ROW EXCLUSIVE on payout while the trigger is made.

CREATE CONSTRAINT TRIGGER payout_posting_guard AFTER UPDATE ON payout
  DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
  WHEN (NEW.state = 'POSTED' AND OLD.state <> 'POSTED') EXECUTE FUNCTION posting_guard();
ALTER TABLE payout ENABLE ALWAYS TRIGGER payout_posting_guard;
