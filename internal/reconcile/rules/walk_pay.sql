-- Every use of a token in paydb, in the order of tokens: a row per token and payer.
-- The bits of kinds are those of walk.go. FENCED attempts passed nowhere. A CREDIT leg
-- has its twin's token, or A05 and A15 tell, so that half of the legs can be left out.
WITH uses AS (
  SELECT payout_id, fence AS token, 1 AS kind, created_at AS at, NULL::text AS name
    FROM ledger_entry WHERE direction = 'DEBIT' AND fence > 0
   UNION ALL
  SELECT payout_id, claim_token, 2, claimed_at, nullif(claimed_by, 'unknown') FROM payout_claim WHERE claim_token > 0
   UNION ALL
  SELECT payout_id, presented_token, 4, submitted_at, NULL
    FROM rail_submission WHERE outcome IS DISTINCT FROM 'FENCED' AND presented_token > 0
), by_payer AS (
  SELECT u.token, p.account_id, p.currency, u.kind, u.at, u.name FROM uses u JOIN payout p USING (payout_id)
   UNION ALL
  -- When the payout's row got its claim stands in payout_claim.
  SELECT claim_token, account_id, currency, 2, NULL, claimed_by FROM payout WHERE claim_token > 0
   UNION ALL
  SELECT fence, account_id, currency, 8, NULL, NULL FROM account WHERE fence > 0
   UNION ALL
  SELECT r.raised_to, r.account_id, a.currency, 16, NULL, NULL FROM account_fence_raise r JOIN account a USING (account_id)
   UNION ALL
  SELECT h.highest_token, h.account_id, a.currency, 32, NULL, NULL FROM rail_high_water h JOIN account a USING (account_id)
   UNION ALL
  SELECT floor_token, NULL, NULL, CASE point WHEN 'account' THEN 64 ELSE 128 END, NULL, NULL FROM fence_floor WHERE floor_token > 0
)
SELECT token, account_id, bit_or(kind) AS kinds, coalesce(min(name COLLATE "C") <> max(name COLLATE "C"), false) AS two_names,
       count(*) FILTER (WHERE kind = 1) AS debits, max(at) FILTER (WHERE isfinite(at)) AS last_at
  FROM by_payer
 WHERE (@accounts::uuid[] IS NULL OR account_id = ANY (@accounts::uuid[]))
   AND (@currency::text[] IS NULL OR currency = ANY (@currency::text[]))
 GROUP BY token, account_id
 ORDER BY token;
