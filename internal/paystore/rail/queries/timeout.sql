-- The proxy gave up waiting: unknown, and no guess (K-5.3).
UPDATE rail_submission
   SET outcome     = 'TIMEOUT',
       resolved_at = now()
 WHERE submission_id = :submission_id AND outcome IS NULL
RETURNING submission_id, payout_id, idempotency_key, presented_token, coalesce(outcome, ''), coalesce(rail_reference, ''), submitted_at, resolved_at;
