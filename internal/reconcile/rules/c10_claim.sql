-- C10: an attempt that may reach the rail, under a token that never claimed the payout
-- (K-5.2 keeps every claim). FENCED ones were forwarded nowhere; one without a token is B15.
-- What does not exist was claimed by nobody: its attempts are in every scope, and since
-- every seal.
SELECT 'C10' AS class, p.account_id::text, p.payout_id::text, s.submission_id::text AS subject, p.currency::text, p.amount_minor::text AS amount,
       CASE WHEN isfinite(s.submitted_at) THEN s.submitted_at END AS at, ARRAY[s.presented_token] AS suspects, false AS pending,
       format('token %s sent payout %s to the rail at %s (outcome %s), and never claimed it; the payout is %s, %s',
              s.presented_token, p.payout_id, to_char(s.submitted_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS "UTC"'), coalesce(s.outcome, 'not known yet'), p.state,
              CASE WHEN p.claim_token IS NULL THEN 'claimed by nobody' ELSE format('claimed by %s under token %s', quote_nullable(p.claimed_by), p.claim_token) END) AS what,
       jsonb_build_object('presented_token', s.presented_token, 'outcome', s.outcome, 'state', p.state, 'claim_token', p.claim_token, 'claimed_by', p.claimed_by) AS details
  FROM rail_submission s
  JOIN payout p USING (payout_id)
 WHERE s.outcome IS DISTINCT FROM 'FENCED' AND s.presented_token > 0
   AND NOT EXISTS (SELECT FROM payout_claim c WHERE c.payout_id = s.payout_id AND c.claim_token = s.presented_token)
   AND (@accounts::uuid[] IS NULL OR p.account_id = ANY (@accounts::uuid[]))
   AND (@payouts::uuid[] IS NULL OR p.payout_id = ANY (@payouts::uuid[]))
   AND (@currency::text[] IS NULL OR p.currency = ANY (@currency::text[]))
 UNION ALL
SELECT 'C10', '', s.payout_id::text, s.submission_id::text, '', '', CASE WHEN isfinite(s.submitted_at) THEN s.submitted_at END,
       array_remove(ARRAY[s.presented_token], NULL), false,
       format('token %s sent payout %s to the rail at %s (outcome %s, reference %s), and the payout does not exist', s.presented_token, s.payout_id,
              to_char(s.submitted_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS "UTC"'), coalesce(s.outcome, 'not known yet'), coalesce(quote_literal(s.rail_reference), 'none')),
       jsonb_build_object('presented_token', s.presented_token, 'outcome', s.outcome, 'rail_reference', s.rail_reference, 'idempotency_key', s.idempotency_key)
  FROM rail_submission s
 WHERE s.outcome IS DISTINCT FROM 'FENCED'
   AND NOT EXISTS (SELECT FROM payout p WHERE p.payout_id = s.payout_id);
