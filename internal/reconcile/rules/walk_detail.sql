-- What the walk tells of its suspects: everything that @tokens wrote on the account of
-- the same place in @payers. Nothing is indexed by token: they are found by the payers'
-- payouts.
WITH suspects AS (
  SELECT * FROM unnest(@tokens::bigint[], @payers::uuid[]) WITH ORDINALITY AS s (token, account_id, place)
), payouts AS (
  SELECT payout_id, account_id, amount_minor, claim_token, claimed_by FROM payout WHERE account_id = ANY (@payers::uuid[])
), uses AS (
  SELECT payout_id, l.fence AS token, 'leg' AS kind, l.created_at AS at, NULL::text AS name
    FROM payouts JOIN ledger_entry l USING (payout_id) WHERE l.fence = ANY (@tokens::bigint[])
   UNION ALL
  SELECT payout_id, c.claim_token, 'claim', c.claimed_at, c.claimed_by
    FROM payouts JOIN payout_claim c USING (payout_id) WHERE c.claim_token = ANY (@tokens::bigint[])
   UNION ALL
  SELECT payout_id, s.presented_token, 'attempt', s.submitted_at, NULL
    FROM payouts JOIN rail_submission s USING (payout_id) WHERE s.presented_token = ANY (@tokens::bigint[]) AND s.outcome IS DISTINCT FROM 'FENCED'
   UNION ALL
  -- The claim on the row: that of payout_claim again, unless somebody went round it.
  SELECT payout_id, claim_token, 'row', NULL, claimed_by FROM payouts WHERE claim_token = ANY (@tokens::bigint[])
), per_payout AS (
  SELECT u.token, p.account_id, p.payout_id, p.amount_minor,
         count(*) FILTER (WHERE u.kind = 'leg') AS legs, count(*) FILTER (WHERE u.kind = 'attempt') AS attempts,
         greatest(count(*) FILTER (WHERE u.kind = 'claim'), count(*) FILTER (WHERE u.kind = 'row')) AS claims,
         min(u.at) FILTER (WHERE isfinite(u.at)) AS first_at, max(u.at) FILTER (WHERE isfinite(u.at)) AS last_at,
         array_agg(DISTINCT u.name) FILTER (WHERE u.name <> 'unknown') AS names
    FROM uses u
    JOIN payouts p USING (payout_id)
   GROUP BY u.token, p.account_id, p.payout_id, p.amount_minor
), written AS (
  SELECT w.token, w.account_id, count(*) AS payouts, count(*) FILTER (WHERE w.legs > 0) AS posted, (array_agg(w.payout_id::text ORDER BY w.first_at, w.payout_id))[1:5] AS some,
         sum(w.amount_minor) AS amount, sum(w.legs)::bigint AS legs, sum(w.attempts)::bigint AS attempts, sum(w.claims)::bigint AS claims,
         min(w.first_at) AS first_at, max(w.last_at) AS last_at
    FROM per_payout w
   GROUP BY w.token, w.account_id
), named AS (
  SELECT w.token, w.account_id, (array_agg(DISTINCT name))[1:5] AS names
    FROM per_payout w, unnest(w.names) AS name
   GROUP BY w.token, w.account_id
)
SELECT s.place, coalesce(a.currency::text, ''), coalesce(w.payouts, 0), coalesce(w.posted, 0), coalesce(w.some, '{}'), coalesce(w.amount::text, ''),
       coalesce(w.claims, 0), coalesce(w.attempts, 0), coalesce(w.legs, 0), w.first_at, w.last_at, coalesce(n.names, '{}'),
       CASE WHEN isfinite(a.updated_at) THEN a.updated_at END, CASE WHEN isfinite(h.updated_at) THEN h.updated_at END
  FROM suspects s
  LEFT JOIN written w USING (token, account_id)
  LEFT JOIN named n USING (token, account_id)
  LEFT JOIN account a USING (account_id)
  LEFT JOIN rail_high_water h USING (account_id)
 ORDER BY s.place;
