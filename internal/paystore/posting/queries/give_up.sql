-- Of a payout that nobody has claimed.
UPDATE payout
   SET state = 'FAILED', updated_at = now()
 WHERE payout_id = :payout_id AND state = 'PENDING'
RETURNING payout_id::text, account_id::text, amount_minor, currency, state, claimed_by, claim_token,
          idempotency_key, attempt_count, created_at, updated_at;
