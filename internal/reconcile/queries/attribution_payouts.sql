-- What stands of each payout that a finding names. The lists are bounded: of a payout
-- that has more, no single token is the author.
SELECT p.payout_id::text, p.account_id::text, p.state, coalesce(p.claim_token, 0), coalesce(p.claimed_by, ''), a.fence,
       l.fences, l.together, l.at, c.tokens, c.names, s.ids, s.tokens, s.before
  FROM payout p
  JOIN account a USING (account_id)
 CROSS JOIN LATERAL (
        -- A posting is one transaction: its legs are of one moment, which is the payout's last.
        SELECT coalesce(array_agg(DISTINCT l.fence) FILTER (WHERE l.fence > 0), '{}') AS fences,
               coalesce(bool_and(isfinite(l.created_at) AND isfinite(p.updated_at)
                                 AND l.created_at BETWEEN p.updated_at - interval '1 s' AND p.updated_at + interval '1 s'), false) AS together,
               max(l.created_at) FILTER (WHERE isfinite(l.created_at)) AS at
          FROM (SELECT fence, created_at FROM ledger_entry WHERE payout_id = p.payout_id LIMIT 50) l) l
 CROSS JOIN LATERAL (
        SELECT coalesce(array_agg(c.claim_token), '{}') AS tokens, coalesce(array_agg(c.claimed_by), '{}') AS names
          FROM (SELECT claim_token, claimed_by FROM payout_claim WHERE payout_id = p.payout_id ORDER BY claim_token DESC LIMIT 50) c) c
 CROSS JOIN LATERAL (
        SELECT coalesce(array_agg(s.submission_id::text), '{}') AS ids, coalesce(array_agg(coalesce(s.presented_token, 0)), '{}') AS tokens,
               coalesce(array_agg(s.submitted_at <= p.updated_at), '{}') AS before
          FROM (SELECT submission_id, presented_token, submitted_at FROM rail_submission WHERE payout_id = p.payout_id ORDER BY submitted_at DESC LIMIT 50) s) s
 WHERE p.payout_id = ANY (@payouts::uuid[]);
