-- The rail paid what was abandoned here, because its answer never came. It is one of the
-- world's own: the scene has none.
-- @paydb
SELECT * FROM paid UNION ALL
(SELECT 'rail-of-' || p.payout_id, p.idempotency_key, p.amount_minor, p.currency, 'PAID', s.submitted_at
  FROM payout p JOIN rail_submission s USING (payout_id) WHERE p.state = 'ABANDONED' AND s.outcome = 'TIMEOUT' ORDER BY p.payout_id LIMIT 1)
-- @finding
(SELECT s.presented_token FROM payout p JOIN rail_submission s USING (payout_id) WHERE p.state = 'ABANDONED' AND s.outcome = 'TIMEOUT' ORDER BY p.payout_id LIMIT 1), NULL,
(SELECT p.payout_id FROM payout p JOIN rail_submission s USING (payout_id) WHERE p.state = 'ABANDONED' AND s.outcome = 'TIMEOUT' ORDER BY p.payout_id LIMIT 1), NULL
