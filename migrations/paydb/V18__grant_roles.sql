-- Least privilege on paydb (K-4.6, K-12.1). The roles are made by
-- `dlockctl migrate roles`; a versioned file only grants (K-9.5).
-- Locks: none that a reader or writer notices.
--
-- Columns, not tables, wherever a role writes: ids, dates, logins and what a payout
-- pays are chosen by nobody. No role but dlock_owner writes floors, the gate,
-- openings and clearing accounts, or has DELETE or TRUNCATE on anything.

-- What both services read: their guards look at most of it. Not rail_high_water:
-- payment-resource never touches it, or the two enforcement points would stop
-- being independent.
GRANT SELECT ON account, payout, clearing_account, payout_claim, payout_resolution,
  fence_floor, pay_gate, peer_instance, rail_submission TO payapp;

-- payment-resource: claims, transitions, postings (a) to (c), resolutions.
GRANT INSERT (payout_id, account_id, amount_minor, currency, idempotency_key) ON payout TO payapp_resource;
GRANT UPDATE (state, claimed_by, claim_token, attempt_count, updated_at) ON payout TO payapp_resource;
GRANT UPDATE (balance_minor, fence, updated_at) ON account TO payapp_resource;
GRANT SELECT ON ledger_entry, opening_balance, account_fence_raise TO payapp_resource;
GRANT INSERT (entry_id, payout_id, account_id, direction, amount_minor, fence) ON ledger_entry TO payapp_resource;
GRANT INSERT (payout_id, source, verdict, evidence, operator, reason) ON payout_resolution TO payapp_resource;
GRANT INSERT (account_id, raised_from, raised_to, operator, reason) ON account_fence_raise TO payapp_resource;

-- rail-proxy: the mark (d) and the attempts. It reads the payout, and tells
-- payment-resource how the rail answered; it moves no payout itself.
GRANT SELECT ON rail_high_water TO payapp_rail;
GRANT INSERT (account_id, highest_token, updated_at) ON rail_high_water TO payapp_rail;
GRANT UPDATE (highest_token, updated_at) ON rail_high_water TO payapp_rail;
GRANT INSERT (submission_id, payout_id, idempotency_key, presented_token, outcome, rail_reference, resolved_at) ON rail_submission TO payapp_rail;
GRANT UPDATE (outcome, rail_reference, resolved_at) ON rail_submission TO payapp_rail;

-- A person: raises a fence (K-3.2), releases, resolves, gives up. No balance, no leg.
GRANT UPDATE (fence, updated_at) ON account TO dlock_operator;
GRANT UPDATE (state, claimed_by, claim_token, updated_at) ON payout TO dlock_operator;
GRANT INSERT (payout_id, source, verdict, evidence, operator, reason) ON payout_resolution TO dlock_operator;
GRANT INSERT (account_id, raised_from, raised_to, operator, reason) ON account_fence_raise TO dlock_operator;

GRANT SELECT ON account, payout, ledger_entry, rail_submission, rail_high_water, clearing_account, opening_balance,
  payout_claim, payout_resolution, account_fence_raise, fence_floor, pay_gate, peer_instance TO dlock_auditor, dlock_operator;

-- Stores read the history to know which schema they stand on. It is made by the
-- migration engine, not by a migration.
DO $$
BEGIN
  EXECUTE format('GRANT USAGE ON SCHEMA %I TO payapp, dlock_auditor, dlock_operator', current_schema());
  IF to_regclass('flyway_schema_history') IS NOT NULL THEN
    GRANT SELECT ON flyway_schema_history TO payapp, dlock_auditor, dlock_operator;
  END IF;
END $$;
