UPDATE payout
   SET state = 'RAIL_SUBMITTED', attempt_count = attempt_count + 1, updated_at = now()
 WHERE payout_id = :payout_id AND state = 'CLAIMED' AND claim_token = :token
RETURNING payout_id::text, account_id::text, amount_minor, currency, state, claimed_by, claim_token,
          idempotency_key, attempt_count, created_at, updated_at;
