-- B10, B11: the rail's mark of an account against the attempts that passed it. FENCED
-- ones were forwarded nowhere. One pass over the attempts, sorted by account and time.
WITH attempts AS (
  -- B11: as for B03, what began within the grace (60 seconds) proves nothing.
  SELECT p.account_id, p.currency, p.amount_minor, s.payout_id, s.submission_id, s.outcome, s.presented_token, s.submitted_at,
         h.highest_token AS mark,
         max(s.presented_token) OVER (PARTITION BY p.account_id ORDER BY s.submitted_at
                                      RANGE BETWEEN UNBOUNDED PRECEDING AND interval '60 seconds' PRECEDING) AS passed_before
    FROM rail_submission s
    JOIN payout p USING (payout_id)
    LEFT JOIN rail_high_water h ON h.account_id = p.account_id
   WHERE s.outcome IS DISTINCT FROM 'FENCED' AND s.presented_token > 0
     AND (@accounts::uuid[] IS NULL OR p.account_id = ANY (@accounts::uuid[]))
     AND (@currency::text[] IS NULL OR p.currency = ANY (@currency::text[]))
), per_account AS (
  SELECT account_id, currency, mark, max(presented_token) AS top,
         array_agg(presented_token) FILTER (WHERE presented_token > coalesce(mark, 0)) AS above,
         sum(amount_minor)          FILTER (WHERE presented_token > coalesce(mark, 0)) AS above_amount,
         min(submitted_at)          FILTER (WHERE presented_token > coalesce(mark, 0)) AS above_since,
         jsonb_agg(jsonb_build_object('payout', payout_id, 'attempt', submission_id, 'outcome', outcome, 'token', presented_token,
                                      'amount', amount_minor, 'at', submitted_at, 'higher_token', passed_before))
                                    FILTER (WHERE presented_token < passed_before) AS late
    FROM attempts
   GROUP BY account_id, currency, mark
)
SELECT f.class, s.account_id::text, f.payout_id, f.subject, s.currency::text, f.amount, CASE WHEN isfinite(f.at) THEN f.at END AS at, f.suspects, false AS pending, f.what, f.details
  FROM per_account s
 CROSS JOIN LATERAL (
   SELECT 'B10' AS class, '' AS payout_id, '' AS subject, s.above_amount::text AS amount, s.above_since AS at,
          ARRAY(SELECT t FROM unnest(s.above) t GROUP BY t ORDER BY t DESC LIMIT 20) AS suspects,
          format('the rail''s mark of account %s %s, yet %s: a stale holder could pass now', s.account_id,
                 CASE WHEN s.mark IS NULL THEN 'does not exist' ELSE format('stands at %s', s.mark) END,
                 CASE WHEN cardinality(s.above) = 1 THEN format('an attempt passed under the higher token %s', s.top)
                      ELSE format('%s attempts passed under higher tokens, up to %s', cardinality(s.above), s.top) END) AS what,
          jsonb_build_object('mark', s.mark, 'highest_presented', s.top, 'attempts_above', cardinality(s.above)) AS details
    WHERE s.above IS NOT NULL
   UNION ALL
   SELECT 'B11', j.payout, j.attempt, j.amount::text, j.at, ARRAY[j.token, j.higher_token],
          format('token %s was let through to the rail for payout %s at %s, more than a minute after the higher token %s on the same account (outcome %s): a holder that had been replaced may have paid',
                 j.token, j.payout, to_char(j.at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS "UTC"'), j.higher_token, coalesce(j.outcome, 'not known yet')),
          jsonb_build_object('token', j.token, 'at', j.at, 'outcome', j.outcome, 'higher_token', j.higher_token)
     FROM jsonb_to_recordset(s.late) AS j (payout text, attempt text, outcome text, token bigint, amount bigint, at timestamptz, higher_token bigint)
 ) f
 WHERE s.above IS NOT NULL OR s.late IS NOT NULL;
