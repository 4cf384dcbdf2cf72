-- A payment that the rail is known to know: the last one it acknowledged of
-- another payout.
SELECT s.payout_id::text FROM rail_submission s
 WHERE s.outcome = 'ACKED' AND s.payout_id <> :payout_id
 ORDER BY s.submitted_at DESC
 LIMIT 1;
