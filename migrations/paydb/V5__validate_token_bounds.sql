-- The rows from before V4 hold no token above 2^53 either (K-1.6), and no claim
-- without one. If one does, this fails and names the constraint: such a token is
-- forged or foreign, and must be looked at by a human before any fast-forward takes
-- it for evidence (K-7.2).
-- Locks: SHARE UPDATE EXCLUSIVE, while each table is read once; writers go on.

ALTER TABLE account         VALIDATE CONSTRAINT account_fence_bound_ck;
ALTER TABLE payout          VALIDATE CONSTRAINT payout_claim_bound_ck,
                            VALIDATE CONSTRAINT payout_claim_token_ck;
ALTER TABLE ledger_entry    VALIDATE CONSTRAINT ledger_fence_bound_ck;
ALTER TABLE rail_submission VALIDATE CONSTRAINT rail_token_bound_ck;
ALTER TABLE rail_high_water VALIDATE CONSTRAINT rail_hwm_bound_ck;
