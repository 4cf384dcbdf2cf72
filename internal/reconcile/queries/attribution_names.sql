-- The names under which a token claimed payouts of one payer.
SELECT w.place, array_agg(DISTINCT named.name)
  FROM unnest(@tokens::bigint[], @payers::uuid[]) WITH ORDINALITY AS w (token, account_id, place)
  JOIN payout p USING (account_id)
 CROSS JOIN LATERAL (
        SELECT c.claimed_by AS name FROM payout_claim c WHERE c.payout_id = p.payout_id AND c.claim_token = w.token
         UNION ALL
        SELECT p.claimed_by WHERE p.claim_token = w.token AND p.claimed_by IS NOT NULL) AS named
 WHERE named.name <> 'unknown' -- V10 wrote that for a claim without a name
 GROUP BY w.place;
