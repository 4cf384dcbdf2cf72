-- 0 rows: the idempotency key has its payout already.
INSERT INTO payout (payout_id, account_id, amount_minor, currency, idempotency_key)
VALUES (:payout_id, :account_id, :amount_minor, :currency, :idempotency_key)
ON CONFLICT (idempotency_key) DO NOTHING
RETURNING payout_id::text, account_id::text, amount_minor, currency, state, claimed_by, claim_token,
          idempotency_key, attempt_count, created_at, updated_at;
