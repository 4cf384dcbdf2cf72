-- C01, C04, C07, C08: each attempt against its payout. FENCED ones
-- were forwarded nowhere. One pass over the attempts.
WITH attempts AS (
  SELECT p.payout_id, p.account_id, p.currency, p.amount_minor, p.state, p.claim_token, p.claimed_by, p.idempotency_key,
         s.submission_id, s.idempotency_key AS rail_key, s.presented_token, s.outcome, s.rail_reference, s.submitted_at, s.resolved_at,
         s.outcome = 'ACKED' AND p.state IN ('PENDING', 'CLAIMED', 'RAIL_SUBMITTED', 'RAIL_AMBIGUOUS', 'RAIL_ACKED') AS acked_not_posted,
         coalesce(s.outcome, 'TIMEOUT') = 'TIMEOUT' AND p.state NOT IN ('POSTED', 'FAILED', 'ABANDONED')       AS ambiguous,
         -- Given up without evidence: unknown is never failed (K-5.3).
         coalesce(s.outcome, 'TIMEOUT') = 'TIMEOUT' AND p.state IN ('FAILED', 'ABANDONED')
           AND NOT EXISTS (SELECT FROM payout_resolution r
                            WHERE r.payout_id = p.payout_id AND (p.state = 'ABANDONED' OR r.verdict <> 'UNDETERMINED')) AS guessed,
         s.outcome = 'ACKED' AND coalesce(s.rail_reference, '') !~ '\S'                                        AS without_reference,
         s.idempotency_key IS DISTINCT FROM p.idempotency_key                                                  AS other_key
    FROM rail_submission s
    JOIN payout p USING (payout_id)
   WHERE s.outcome IS DISTINCT FROM 'FENCED'
     AND (@accounts::uuid[] IS NULL OR p.account_id = ANY (@accounts::uuid[]))
     AND (@payouts::uuid[] IS NULL OR p.payout_id = ANY (@payouts::uuid[]))
     AND (@currency::text[] IS NULL OR p.currency = ANY (@currency::text[]))
), suspects AS (
  SELECT *,
         to_char(submitted_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS "UTC"') AS submitted,
         to_char(resolved_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS "UTC"')  AS resolved
    FROM attempts
   WHERE acked_not_posted OR ambiguous OR guessed OR without_reference OR other_key
)
SELECT f.class, s.account_id::text, s.payout_id::text, s.submission_id::text AS subject, s.currency::text, s.amount_minor::text AS amount,
       CASE WHEN isfinite(f.at) THEN f.at END AS at, array_remove(ARRAY[s.presented_token, CASE WHEN s.claim_token <> s.presented_token THEN s.claim_token END], NULL) AS suspects,
       f.pending, f.what,
       jsonb_build_object('state', s.state, 'outcome', s.outcome, 'presented_token', s.presented_token, 'claim_token', s.claim_token, 'claimed_by', s.claimed_by,
                          'rail_reference', s.rail_reference, 'submitted_at', s.submitted_at, 'resolved_at', s.resolved_at) || f.details AS details
  FROM suspects s
 CROSS JOIN LATERAL (VALUES
   ('C01', s.acked_not_posted, s.resolved_at, coalesce(s.resolved_at > now() - interval '5 minutes', false),
    format('the rail paid payout %s at %s (attempt of token %s, reference %s), but it is still %s, claimed by %s: the money is out and the account is not debited',
           s.payout_id, s.resolved, s.presented_token, coalesce(quote_literal(s.rail_reference), 'none'), s.state, quote_nullable(s.claimed_by)), '{}'::jsonb),
   ('C04', s.ambiguous, s.submitted_at, s.submitted_at > now() - interval '15 minutes',
    format('whether the rail paid payout %s is not known since %s: its attempt of token %s %s, and it is %s, claimed by %s',
           s.payout_id, s.submitted, s.presented_token, CASE WHEN s.outcome IS NULL THEN 'has no answer' ELSE 'timed out' END, s.state, quote_nullable(s.claimed_by)), '{}'),
   ('C04', s.guessed, s.submitted_at, false,
    format('payout %s is %s, and whether the rail paid it was never found out: its attempt of token %s at %s %s, and no resolution is recorded',
           s.payout_id, s.state, s.presented_token, s.submitted, CASE WHEN s.outcome IS NULL THEN 'has no answer' ELSE 'timed out' END), '{}'),
   ('C07', s.without_reference, s.resolved_at, false,
    format('the rail paid payout %s at %s (attempt of token %s) and its reference was not kept: it cannot be found on the rail''s statement',
           s.payout_id, s.resolved, s.presented_token), '{}'),
   ('C08', s.other_key, s.submitted_at, false,
    format('payout %s was sent to the rail at %s by token %s under the key %s, its own is %s: the rail cannot know a retry of it again',
           s.payout_id, s.submitted, s.presented_token, quote_nullable(s.rail_key), quote_nullable(s.idempotency_key)),
    jsonb_build_object('rail_key', s.rail_key, 'idempotency_key', s.idempotency_key))
 ) AS f (class, applies, at, pending, what, details)
 WHERE f.applies;
