-- What the rail acknowledged here while its statement ran, or ever, where that has no
-- times.
SELECT p.account_id::text, p.payout_id::text, s.submission_id::text, p.currency::text, p.amount_minor::text,
       p.idempotency_key, coalesce(s.rail_reference, ''), s.presented_token, s.submitted_at
  FROM rail_submission s
  JOIN payout p USING (payout_id)
 WHERE s.outcome = 'ACKED'
   AND (@from::timestamptz IS NULL OR s.submitted_at BETWEEN @from::timestamptz AND @until::timestamptz)
   AND (@accounts::uuid[] IS NULL OR p.account_id = ANY (@accounts::uuid[]))
   AND (@payouts::uuid[] IS NULL OR p.payout_id = ANY (@payouts::uuid[]))
   AND (@currency::text[] IS NULL OR p.currency = ANY (@currency::text[]));
