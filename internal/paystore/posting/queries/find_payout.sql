-- By id or by idempotency key; the key's own comes first.
SELECT p.payout_id::text, p.account_id::text, p.amount_minor, p.currency, p.state, p.claimed_by, p.claim_token,
       p.idempotency_key, p.attempt_count, p.created_at, p.updated_at
  FROM payout p
 WHERE p.idempotency_key = :idempotency_key OR p.payout_id = :payout_id
 ORDER BY p.idempotency_key = :idempotency_key DESC
 LIMIT 1;
