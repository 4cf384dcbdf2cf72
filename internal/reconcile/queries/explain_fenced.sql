-- The attempts of some accounts' payouts, or of @payouts, that were refused at the
-- rail. They are not indexed by payout: all timelines share this one scan.
SELECT CASE WHEN isfinite(f.at) THEN f.at END, 'fenced_out', f.token, '', f.payout_id::text, f.submission_id::text,
       'refused at the rail: its token is below the mark; nothing was forwarded', 'rail_submission', f.account_id::text
  FROM (SELECT s.submitted_at AS at, s.presented_token AS token, s.payout_id, s.submission_id, p.account_id,
               row_number() OVER (PARTITION BY p.account_id ORDER BY s.submitted_at DESC) AS n
          FROM rail_submission s
          JOIN payout p USING (payout_id)
         WHERE s.outcome = 'FENCED' AND (p.account_id = ANY (@accounts::uuid[]) OR p.payout_id = ANY (@payouts::uuid[]))) f
 WHERE f.n <= 100
 ORDER BY f.at;
