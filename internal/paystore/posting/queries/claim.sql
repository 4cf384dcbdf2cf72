-- PENDING to CLAIMED. The payout's earlier claims, the floor and the gate are looked
-- at by triggers (K-5.2, K-4.12, K-7.9).
UPDATE payout
   SET state = 'CLAIMED', claimed_by = :holder, claim_token = :token, updated_at = now()
 WHERE payout_id = :payout_id AND state = 'PENDING'
RETURNING payout_id::text, account_id::text, amount_minor, currency, state, claimed_by, claim_token,
          idempotency_key, attempt_count, created_at, updated_at;
