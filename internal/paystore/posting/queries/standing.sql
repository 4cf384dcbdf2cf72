-- The one diagnostic read (K-4.3): everything that may have refused a token or a
-- payout, in one snapshot.
SELECT p.payout_id::text, p.account_id::text, p.amount_minor, p.currency, p.state, p.claimed_by, p.claim_token,
       p.idempotency_key, p.attempt_count, p.created_at, p.updated_at,
       a.currency, coalesce(a.balance_minor, 0), coalesce(a.fence, 0),
       (SELECT f.floor_token FROM fence_floor f WHERE f.point = 'account'),
       coalesce((SELECT max(c.claim_token) FROM payout_claim c WHERE c.payout_id = p.payout_id), 0),
       s.submission_id IS NOT NULL, coalesce(s.outcome, '')
  FROM payout p
  LEFT JOIN account a ON a.account_id = p.account_id
  LEFT JOIN rail_submission s ON s.payout_id = p.payout_id AND s.outcome IS DISTINCT FROM 'FENCED'
 WHERE p.payout_id = :payout_id;
