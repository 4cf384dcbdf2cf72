-- What paydb has for lines of the rail's statement: by the payout's key, or, for a line
-- without one, by the reference that the rail gave an attempt.
WITH lines AS (
  SELECT * FROM unnest(@lines::int[], @keys::text[], @references::text[]) AS l (line, key, reference)
), payouts AS (
  SELECT l.line, p.payout_id FROM lines l JOIN payout p ON p.idempotency_key = l.key WHERE l.key <> ''
  UNION ALL
  SELECT l.line, s.payout_id FROM lines l JOIN rail_submission s ON s.rail_reference = l.reference WHERE l.key = ''
)
SELECT DISTINCT ON (l.line) l.line, p.payout_id::text, p.account_id::text, p.state, p.amount_minor, p.currency::text,
       coalesce(s.submission_id::text, ''), coalesce(s.outcome, ''), coalesce(s.rail_reference, ''), s.presented_token,
       -- The last verdict that says something.
       coalesce((SELECT r.verdict FROM payout_resolution r
                  WHERE r.payout_id = p.payout_id AND r.verdict <> 'UNDETERMINED' ORDER BY r.resolution_id DESC LIMIT 1) = 'PAID', false)
  FROM payouts l
  JOIN payout p USING (payout_id)
  LEFT JOIN rail_submission s ON s.payout_id = p.payout_id AND s.outcome IS DISTINCT FROM 'FENCED'
 ORDER BY l.line, s.outcome = 'ACKED' DESC, s.submitted_at;
