-- A14, A16: a payout is in the currency of the account that pays it and of the one that is
-- credited, and both are there. A claim is kept for ever (K-5.2), and so is its payout.
SELECT broken.class, p.account_id::text, p.payout_id::text, '', p.currency::text, p.amount_minor::text, CASE WHEN isfinite(p.created_at) THEN p.created_at END,
       array_remove(ARRAY[p.claim_token], NULL), false, broken.what, NULL::jsonb
  FROM payout p
  LEFT JOIN account a USING (account_id)
 CROSS JOIN LATERAL (VALUES
         ('A14', a.account_id IS NULL, format('a payout of %s %s, %s, is of account %s, which does not exist', p.amount_minor, p.currency, p.state, p.account_id)),
         ('A16', p.currency <> a.currency, format('a payout of %s %s from an account that holds %s', p.amount_minor, p.currency, a.currency))
       ) AS broken (class, found, what)
 WHERE (a.account_id IS NULL OR p.currency <> a.currency) AND broken.found
   AND (@accounts::uuid[] IS NULL OR p.account_id = ANY (@accounts))
   AND (@payouts::uuid[] IS NULL OR p.payout_id = ANY (@payouts))
   AND (@currency::text[] IS NULL OR p.currency = ANY (@currency) OR a.currency = ANY (@currency))
UNION ALL
-- A08 takes the clearing account at its word.
SELECT 'A16', p.account_id::text, p.payout_id::text, '', p.currency::text, l.amount_minor::text, CASE WHEN isfinite(l.created_at) THEN l.created_at END,
       array_remove(ARRAY[l.fence], NULL), false,
       format('%s %s were credited to account %s, which is said to clear %s and holds %s', l.amount_minor, p.currency, a.account_id, c.currency, a.currency), NULL
  FROM clearing_account c
  JOIN account a USING (account_id)
  JOIN ledger_entry l USING (account_id)
  JOIN payout p USING (payout_id)
 WHERE c.currency <> a.currency AND l.direction = 'CREDIT' AND p.currency <> a.currency
   AND (@accounts::uuid[] IS NULL OR p.account_id = ANY (@accounts) OR a.account_id = ANY (@accounts))
   AND (@payouts::uuid[] IS NULL OR p.payout_id = ANY (@payouts))
   AND (@currency::text[] IS NULL OR p.currency = ANY (@currency) OR a.currency = ANY (@currency))
UNION ALL
-- Whose it was nothing says any more: it is in every scope, and since every seal.
SELECT 'A14', '', c.payout_id::text, c.claim_token::text, '', '', CASE WHEN isfinite(c.claimed_at) THEN c.claimed_at END,
       array_remove(ARRAY[c.claim_token], NULL), false,
       format('%s claimed payout %s under token %s, and the payout does not exist', quote_nullable(c.claimed_by), c.payout_id, c.claim_token), NULL
  FROM payout_claim c
 WHERE NOT EXISTS (SELECT FROM payout p WHERE p.payout_id = c.payout_id)
