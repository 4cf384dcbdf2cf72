-- What the rail is to be asked about: payouts that the closed gate holds back, whose
-- outcome nobody saw, whose attempt is answered or overdue and was not followed, and
-- those of a resolver that died between the evidence and the move. A page of them, behind a
-- payout of the page before, with how many there are from there on.
SELECT p.payout_id::text, p.account_id::text, p.amount_minor, p.currency, p.state, p.claimed_by, p.claim_token,
       p.idempotency_key, p.attempt_count, p.created_at, p.updated_at, held.back,
       count(*) OVER (), count(*) FILTER (WHERE held.back) OVER ()
  FROM payout p
 CROSS JOIN (SELECT NOT EXISTS (SELECT FROM pay_gate g
                                 WHERE g.closed_by IS NULL AND g.timeline_id = instance_timeline()
                                   AND g.system_identifier = instance_system_identifier()) AS closed) gate
 CROSS JOIN LATERAL (SELECT gate.closed AND NOT payout_resolved(p.payout_id, false) AS back) held
 WHERE p.state NOT IN ('POSTED', 'FAILED', 'ABANDONED')
   AND (held.back
        OR p.state = 'RAIL_AMBIGUOUS'
        OR (EXISTS (SELECT FROM payout_resolution r WHERE r.payout_id = p.payout_id AND r.verdict IN ('PAID', 'REJECTED'))
            AND payout_verdict(p.payout_id) IN ('PAID', 'REJECTED'))
        OR (p.state = 'RAIL_SUBMITTED' AND EXISTS (
              SELECT FROM rail_submission s
               WHERE s.payout_id = p.payout_id AND s.outcome IS DISTINCT FROM 'FENCED'
                 AND s.submitted_at + make_interval(secs => :timeout_seconds) <= now())))
   AND (:after_payout::uuid IS NULL
        OR (p.account_id, p.created_at, p.payout_id) > (:after_account::uuid, :after_created::timestamptz, :after_payout::uuid))
 ORDER BY p.account_id, p.created_at, p.payout_id
 LIMIT :row_limit;
