-- C02, C03, C05, C09, C11, C12, C13: each payout against all of its attempts that
-- may reach the rail, and what was resolved. One pass over payouts and attempts.
WITH attempts AS (
  SELECT payout_id, count(*) AS forwardable,
         count(*) FILTER (WHERE outcome = 'ACKED')    AS acked,
         count(*) FILTER (WHERE outcome = 'REJECTED') AS rejected,
         bool_or(resolved_at < submitted_at)          AS backwards,
         -- Of a single attempt; of several they are looked up once they are suspect.
         min(presented_token)                         AS token,
         min(coalesce(outcome, 'in flight'))          AS outcome
    FROM rail_submission
   WHERE outcome IS DISTINCT FROM 'FENCED'
     AND (@payouts::uuid[] IS NULL OR payout_id = ANY (@payouts::uuid[]))
   GROUP BY payout_id
), resolutions AS (
  -- The last verdict that says something.
  SELECT DISTINCT ON (payout_id) payout_id, verdict, operator
    FROM payout_resolution
   WHERE verdict <> 'UNDETERMINED'
   ORDER BY payout_id, resolution_id DESC
), payouts AS (
  SELECT p.payout_id, p.account_id, p.currency, p.amount_minor, p.state, p.claim_token, p.claimed_by, p.created_at, p.updated_at,
         coalesce(a.forwardable, 0) AS forwardable, coalesce(a.acked, 0) AS acked, coalesce(a.rejected, 0) AS rejected,
         a.token, a.outcome, a.backwards, r.verdict, r.operator,
         coalesce(a.acked, 0) > 0 OR coalesce(r.verdict = 'PAID', false) AS paid
    FROM payout p
    LEFT JOIN attempts a USING (payout_id)
    LEFT JOIN resolutions r USING (payout_id)
   WHERE (@accounts::uuid[] IS NULL OR p.account_id = ANY (@accounts::uuid[]))
     AND (@payouts::uuid[] IS NULL OR p.payout_id = ANY (@payouts::uuid[]))
     AND (@currency::text[] IS NULL OR p.currency = ANY (@currency::text[]))
), judged AS (
  SELECT *,
         state = 'POSTED' AND NOT paid AND rejected = 0  AS posted_not_acked,
         state = 'POSTED' AND acked = 0 AND rejected > 0 AS posted_and_rejected,
         acked > 1                                       AS double_ack,
         forwardable > 1 AND acked < forwardable         AS second_attempt,
         -- How long each state may last.
         (state = 'PENDING' AND updated_at < now() - interval '24 hours')
           OR (state = 'CLAIMED' AND updated_at < now() - interval '1 hour')
           OR (state IN ('RAIL_SUBMITTED', 'RAIL_AMBIGUOUS', 'RAIL_ACKED') AND forwardable = rejected AND updated_at < now() - interval '1 hour') AS stuck,
         state NOT IN ('PENDING', 'CLAIMED', 'RAIL_SUBMITTED', 'RAIL_ACKED', 'RAIL_AMBIGUOUS', 'POSTED', 'FAILED', 'ABANDONED') AS unknown_state,
         updated_at < created_at                         AS changed_before_created,
         coalesce(backwards, false)                      AS answered_before_made,
         state IN ('FAILED', 'ABANDONED') AND paid       AS paid_not_debited
    FROM payouts
), breaking AS (
  SELECT *,
         to_char(updated_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS "UTC"') AS updated,
         to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS "UTC"') AS created,
         CASE WHEN claim_token IS NULL THEN 'claimed by nobody'
              ELSE format('claimed by %s under token %s', quote_nullable(claimed_by), claim_token) END AS claim
    FROM judged
   WHERE posted_not_acked OR posted_and_rejected OR double_ack OR second_attempt OR stuck OR unknown_state OR changed_before_created OR answered_before_made OR paid_not_debited
), several AS (
  SELECT s.payout_id, array_agg(s.presented_token ORDER BY s.submitted_at) AS tokens,
         array_agg(coalesce(s.outcome, 'in flight') ORDER BY s.submitted_at) AS outcomes
    FROM rail_submission s
    JOIN breaking b USING (payout_id)
   WHERE b.forwardable > 1 AND s.outcome IS DISTINCT FROM 'FENCED'
   GROUP BY s.payout_id
), suspects AS (
  SELECT b.*,
         coalesce(s.tokens, array_remove(ARRAY[b.token], NULL), '{}')     AS tokens,
         coalesce(s.outcomes, array_remove(ARRAY[b.outcome], NULL), '{}') AS outcomes
    FROM breaking b
    LEFT JOIN several s USING (payout_id)
)
SELECT f.class, s.account_id::text, s.payout_id::text, '' AS subject, s.currency::text, s.amount_minor::text AS amount, CASE WHEN isfinite(s.updated_at) THEN s.updated_at END AS at,
       f.suspects, false AS pending, f.what,
       jsonb_build_object('state', s.state, 'claim_token', s.claim_token, 'claimed_by', s.claimed_by, 'created_at', s.created_at, 'updated_at', s.updated_at,
                          'attempt_tokens', to_jsonb(s.tokens), 'attempt_outcomes', to_jsonb(s.outcomes), 'resolved_as', s.verdict, 'resolved_by', s.operator) AS details
  FROM suspects s
 CROSS JOIN LATERAL (VALUES
   ('C02', s.posted_not_acked, array_remove(ARRAY[s.claim_token], NULL),
    format('payout %s was posted (%s), but %s and no resolution says that the rail paid it: the account is debited, whether anything was paid is not known',
           s.payout_id, s.claim, CASE WHEN s.forwardable = 0 THEN 'no attempt' ELSE format('neither its attempt (%s)', array_to_string(s.outcomes, ', ')) END)),
   ('C03', s.posted_and_rejected, s.tokens || CASE WHEN s.claim_token <> ALL (s.tokens) THEN ARRAY[s.claim_token] END,
    format('payout %s was posted (%s), but the rail refused it (attempts of tokens %s)%s: the account is debited and nothing was paid',
           s.payout_id, s.claim, array_to_string(s.tokens, ', ', 'NULL'),
           CASE WHEN s.verdict = 'PAID' THEN format(', although %s resolved it as paid', quote_literal(s.operator)) ELSE '' END)),
   ('C05', s.double_ack, s.tokens,
    format('the rail paid payout %s %s times, in attempts of tokens %s', s.payout_id, s.acked, array_to_string(s.tokens, ', ', 'NULL'))),
   -- One slot for ever (K-5.3): a retry is a new payout. The later attempts are suspect.
   ('C09', s.second_attempt, s.tokens[2:] || s.tokens[1:1],
    format('payout %s has %s attempts that may have reached the rail (%s, of tokens %s): it may have been paid more than once',
           s.payout_id, s.forwardable, array_to_string(s.outcomes, ', '), array_to_string(s.tokens, ', ', 'NULL'))),
   ('C11', s.stuck, array_remove(ARRAY[s.claim_token], NULL),
    format('payout %s is %s since %s (%s)%s: nobody works on it', s.payout_id, s.state, s.updated, s.claim,
           CASE WHEN s.state NOT LIKE 'RAIL%' THEN '' WHEN s.rejected > 0 THEN ', and the rail has refused it' ELSE ' and has no attempt' END)),
   ('C12', s.unknown_state OR s.changed_before_created OR s.answered_before_made, array_remove(ARRAY[s.claim_token], NULL),
    format('payout %s %s (%s)', s.payout_id,
           CASE WHEN s.unknown_state THEN format('is in the state %s, which there is not', quote_literal(s.state))
                WHEN s.changed_before_created THEN format('was last changed at %s, before it was created at %s', s.updated, s.created)
                ELSE 'has an attempt that was answered before it was made' END, s.claim)),
   ('C13', s.paid_not_debited, s.tokens || CASE WHEN s.claim_token <> ALL (s.tokens) THEN ARRAY[s.claim_token] END,
    format('the rail paid payout %s%s, but it is %s (%s): the money is out and the account is not debited', s.payout_id,
           CASE WHEN s.acked = 0 THEN format(', as %s resolved it', quote_literal(s.operator)) ELSE format(' in the attempt of token %s', array_to_string(s.tokens, ', ', 'NULL')) END,
           s.state, s.claim))
 ) AS f (class, applies, suspects, what)
 WHERE f.applies;
