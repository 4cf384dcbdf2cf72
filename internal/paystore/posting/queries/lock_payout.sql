-- The payout's row, kept from other writers until the end of the transaction, and
-- the clearing account that it is credited to: one of its currency's shards, chosen
-- by the payout's id alone (K-4.7).
SELECT p.payout_id::text, p.account_id::text, p.amount_minor, p.currency, p.state, p.claimed_by, p.claim_token,
       p.idempotency_key, p.attempt_count, p.created_at, p.updated_at,
       coalesce((SELECT (array_agg(c.account_id::text ORDER BY c.shard))
                        [1 + mod(hashtextextended(p.payout_id::text, 0) & 9223372036854775807, count(*))]
                   FROM clearing_account c WHERE c.currency = p.currency), '')
  FROM payout p
 WHERE p.payout_id = :payout_id
   FOR NO KEY UPDATE OF p;
