-- What the account's next holder takes over before it posts (K-5.2): a page, behind a
-- payout of the page before.
SELECT p.payout_id::text, p.account_id::text, p.amount_minor, p.currency, p.state, p.claimed_by, p.claim_token,
       p.idempotency_key, p.attempt_count, p.created_at, p.updated_at
  FROM payout p
 WHERE p.account_id = :account_id
   AND p.state IN ('CLAIMED', 'RAIL_SUBMITTED', 'RAIL_ACKED', 'RAIL_AMBIGUOUS')
   AND p.payout_id IS DISTINCT FROM :except::uuid
   AND (:after_payout::uuid IS NULL OR (p.created_at, p.payout_id) > (:after_created::timestamptz, :after_payout::uuid))
 ORDER BY p.created_at, p.payout_id
 LIMIT :row_limit;
