-- Every payout with the fingerprints of the states that are final.
SELECT account_id::text, payout_id::text, currency::text, amount_minor::text, CASE WHEN isfinite(updated_at) THEN updated_at END, state, claim_token,
       hashtextextended(payout_id::text || ':POSTED', 7310),
       hashtextextended(payout_id::text || ':FAILED', 7310),
       hashtextextended(payout_id::text || ':ABANDONED', 7310)
  FROM payout
 WHERE (@accounts::uuid[] IS NULL OR account_id = ANY (@accounts))
   AND (@payouts::uuid[] IS NULL OR payout_id = ANY (@payouts))
   AND (@currency::text[] IS NULL OR currency = ANY (@currency));
