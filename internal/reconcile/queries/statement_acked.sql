-- What the rail is said to have paid here while its statement ran, or ever, where that has
-- no times: what it acknowledged, and what was resolved as paid although its answer never
-- came. When it paid what was taken down after the fact (K-7.9) is not known.
WITH resolved AS (
  -- The last verdict that says something.
  SELECT DISTINCT ON (payout_id) payout_id, verdict, recorded_at
    FROM payout_resolution
   WHERE verdict <> 'UNDETERMINED'
   ORDER BY payout_id, resolution_id DESC
), paid AS (
  SELECT s.payout_id, s.submission_id::text AS attempt, s.rail_reference, s.presented_token AS token, s.submitted_at AS at,
         s.outcome = 'ACKED' AS acked, coalesce(r.recorded_at < s.submitted_at, false) AS afterwards
    FROM rail_submission s
    LEFT JOIN resolved r USING (payout_id)
   WHERE s.outcome = 'ACKED' OR s.outcome IS DISTINCT FROM 'REJECTED' AND s.outcome IS DISTINCT FROM 'FENCED' AND r.verdict = 'PAID'
   UNION ALL
  SELECT r.payout_id, '', NULL, NULL, r.recorded_at, false, true
    FROM resolved r
   WHERE r.verdict = 'PAID' AND NOT EXISTS (SELECT FROM rail_submission s WHERE s.payout_id = r.payout_id AND s.outcome IS DISTINCT FROM 'FENCED')
)
SELECT p.account_id::text, p.payout_id::text, paid.attempt, p.currency::text, p.amount_minor::text,
       p.idempotency_key, coalesce(paid.rail_reference, ''), coalesce(paid.token, p.claim_token, 0), paid.at, paid.acked
  FROM paid
  JOIN payout p USING (payout_id)
 WHERE (@from::timestamptz IS NULL OR NOT paid.afterwards AND paid.at BETWEEN @from::timestamptz AND @until::timestamptz)
   AND (@accounts::uuid[] IS NULL OR p.account_id = ANY (@accounts::uuid[]))
   AND (@payouts::uuid[] IS NULL OR p.payout_id = ANY (@payouts::uuid[]))
   AND (@currency::text[] IS NULL OR p.currency = ANY (@currency::text[]));
