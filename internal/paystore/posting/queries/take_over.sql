-- The state stays as it was found; the later holder goes on from there (K-5.2).
UPDATE payout
   SET claimed_by = :holder, claim_token = :token, updated_at = now()
 WHERE payout_id = :payout_id AND state = :from AND claim_token < :token
RETURNING payout_id::text, account_id::text, amount_minor, currency, state, claimed_by, claim_token,
          idempotency_key, attempt_count, created_at, updated_at;
