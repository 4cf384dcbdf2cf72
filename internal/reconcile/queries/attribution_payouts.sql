-- What stands of each payout that a finding names. Of the attempts, those that may have
-- reached the rail: only they are indexed by payout. The lists are cut: of a payout
-- that has more, no single token is the author.
WITH wanted AS MATERIALIZED (
  SELECT p.payout_id, p.account_id, p.state, p.claim_token, p.claimed_by, p.updated_at
    FROM payout p WHERE p.payout_id = ANY (@payouts::uuid[])
), legs AS (
  -- A posting is one transaction: its legs are of one moment, which is the payout's last.
  SELECT w.payout_id, coalesce(array_agg(DISTINCT l.fence) FILTER (WHERE l.fence > 0), '{}') AS fences,
         bool_and(isfinite(l.created_at) AND isfinite(w.updated_at)
                  AND l.created_at BETWEEN w.updated_at - interval '1 s' AND w.updated_at + interval '1 s') AS together,
         max(l.created_at) FILTER (WHERE isfinite(l.created_at)) AS at,
         -- A clock that was set back dates what came first later: transactions are numbered.
         bool_and(EXISTS (
           SELECT FROM payout p JOIN ledger_entry h USING (payout_id)
            WHERE p.account_id = w.account_id AND h.account_id = w.account_id AND h.fence > l.fence AND age(h.xmin) > age(l.xmin))) AS late
    FROM wanted w JOIN ledger_entry l USING (payout_id)
   GROUP BY w.payout_id
), claims AS (
  SELECT w.payout_id, (array_agg(c.claim_token ORDER BY c.claim_token DESC))[1:50] AS tokens, (array_agg(c.claimed_by ORDER BY c.claim_token DESC))[1:50] AS names
    FROM wanted w JOIN payout_claim c USING (payout_id)
   GROUP BY w.payout_id
), attempts AS (
  SELECT w.payout_id, (array_agg(s.submission_id::text ORDER BY s.submitted_at DESC, s.submission_id))[1:50] AS ids,
         (array_agg(coalesce(s.presented_token, 0) ORDER BY s.submitted_at DESC, s.submission_id))[1:50] AS tokens,
         (array_agg(s.submitted_at <= w.updated_at AND coalesce(s.resolved_at >= s.submitted_at, false) AND EXISTS (
            SELECT FROM payout p JOIN rail_submission h USING (payout_id)
             WHERE p.account_id = w.account_id AND h.outcome IS DISTINCT FROM 'FENCED' AND h.presented_token > s.presented_token AND age(h.xmin) > age(s.xmin))
          ORDER BY s.submitted_at DESC, s.submission_id))[1:50] AS before
    FROM wanted w JOIN rail_submission s USING (payout_id)
   WHERE s.outcome IS DISTINCT FROM 'FENCED'
   GROUP BY w.payout_id
)
SELECT w.payout_id::text, w.account_id::text, w.state, coalesce(w.claim_token, 0), coalesce(w.claimed_by, ''), a.fence,
       coalesce(l.fences[1:50], '{}'), coalesce(l.together, false), l.at, coalesce(l.late, false), coalesce(c.tokens, '{}'), coalesce(c.names, '{}'),
       coalesce(s.ids, '{}'), coalesce(s.tokens, '{}'), coalesce(s.before, '{}')
  FROM wanted w
  JOIN account a USING (account_id)
  LEFT JOIN legs l USING (payout_id)
  LEFT JOIN claims c USING (payout_id)
  LEFT JOIN attempts s USING (payout_id);
