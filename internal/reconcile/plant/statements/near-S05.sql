-- What the rail refused here is on the statement as refused.
-- @paydb
SELECT * FROM paid UNION ALL
SELECT '', p.idempotency_key, p.amount_minor, p.currency, 'REJECTED', s.resolved_at FROM payout p JOIN rail_submission s USING (payout_id) WHERE s.outcome = 'REJECTED'
