-- No token above 2^53 (K-1.6). One forged 2^63-1 in account.fence would close
-- the account for ever and poison the evidence of a restore (K-7.2); above 2^53
-- a token does not survive a JSON number either.
-- And no claim without one: C1's payout_claimed_ck lets a NULL token pass, because
-- NULL > 0 is not false (K-5.1).
-- CHECKs, not triggers: they hold for every role and in replica mode as well.
-- Locks: ACCESS EXCLUSIVE on each table for a moment. NOT VALID scans no row;
-- V5 does, without stopping a writer.

ALTER TABLE account
  ADD CONSTRAINT account_fence_bound_ck CHECK (fence <= 9007199254740992) NOT VALID;
ALTER TABLE payout
  ADD CONSTRAINT payout_claim_bound_ck CHECK (claim_token <= 9007199254740992) NOT VALID,
  ADD CONSTRAINT payout_claim_token_ck CHECK (state IN ('PENDING', 'FAILED') OR claim_token IS NOT NULL) NOT VALID;
ALTER TABLE ledger_entry
  ADD CONSTRAINT ledger_fence_bound_ck CHECK (fence <= 9007199254740992) NOT VALID;
ALTER TABLE rail_submission
  ADD CONSTRAINT rail_token_bound_ck CHECK (presented_token <= 9007199254740992) NOT VALID;
ALTER TABLE rail_high_water
  ADD CONSTRAINT rail_hwm_bound_ck CHECK (highest_token <= 9007199254740992) NOT VALID;
