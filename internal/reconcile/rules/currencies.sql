-- A16: a payout is in the currency of the account that pays it.
SELECT 'A16', a.account_id::text, p.payout_id::text, '', p.currency::text, p.amount_minor::text, CASE WHEN isfinite(p.created_at) THEN p.created_at END,
       array_remove(ARRAY[p.claim_token], NULL), false,
       format('a payout of %s %s from an account that holds %s', p.amount_minor, p.currency, a.currency), NULL::jsonb
  FROM payout p
  JOIN account a USING (account_id)
 WHERE p.currency <> a.currency
   AND (@accounts::uuid[] IS NULL OR a.account_id = ANY (@accounts))
   AND (@payouts::uuid[] IS NULL OR p.payout_id = ANY (@payouts))
   AND (@currency::text[] IS NULL OR p.currency = ANY (@currency) OR a.currency = ANY (@currency))
