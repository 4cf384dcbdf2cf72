-- One's own work: ack, reject, timeout, resolve, abandon, give up (K-5.1).
UPDATE payout
   SET state = :to, updated_at = now()
 WHERE payout_id = :payout_id AND state = :from AND claim_token = :token
RETURNING payout_id::text, account_id::text, amount_minor, currency, state, claimed_by, claim_token,
          idempotency_key, attempt_count, created_at, updated_at;
