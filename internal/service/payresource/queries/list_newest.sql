-- A page of payouts, newest first. The place to go on from is a payout's own, so that
-- a page is as cheap as the first and new payouts move none into two pages.
SELECT p.payout_id::text, p.account_id::text, p.amount_minor, p.currency, p.state, p.claimed_by, p.claim_token,
       p.idempotency_key, p.attempt_count, p.created_at, p.updated_at
  FROM payout p
 WHERE (:account_id::uuid IS NULL OR p.account_id = :account_id::uuid)
   AND (cardinality(:states::text[]) = 0 OR p.state = ANY (:states::text[]))
   AND (:claimed_by::text IS NULL OR p.claimed_by = :claimed_by::text)
   AND (:idempotency_key::text IS NULL OR p.idempotency_key = :idempotency_key::text)
   AND (:older_than_seconds::float8 = 0 OR p.updated_at <= now() - make_interval(secs => :older_than_seconds::float8))
   AND (:after_at::timestamptz IS NULL OR (p.created_at, p.payout_id) < (:after_at::timestamptz, :after_id::uuid))
 ORDER BY p.created_at DESC, p.payout_id DESC
 LIMIT :row_limit;
