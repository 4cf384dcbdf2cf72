-- The highest token that payment-resource may read in paydb (K-7.6), and where it
-- stands. A floor whose row is missing is not known, which is not the same as 0
-- (K-7.2): how many there are is told beside it.
SELECT s.token, s.source, (SELECT count(*) FROM fence_floor)
  FROM (VALUES
         ((SELECT max(fence) FROM account), 'account.fence'),
         ((SELECT max(fence) FROM ledger_entry), 'ledger_entry.fence'),
         ((SELECT max(claim_token) FROM payout), 'payout.claim_token'),
         ((SELECT max(claim_token) FROM payout_claim), 'payout_claim.claim_token'),
         ((SELECT max(presented_token) FROM rail_submission), 'rail_submission.presented_token'),
         ((SELECT max(raised_to) FROM account_fence_raise), 'account_fence_raise.raised_to'),
         ((SELECT max(floor_token) FROM fence_floor), 'fence_floor.floor_token'),
         (0, '')) s (token, source)
 WHERE s.token IS NOT NULL
 ORDER BY s.token DESC, s.source
 LIMIT 1;
