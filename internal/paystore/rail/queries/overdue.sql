-- An attempt whose proxy died is in flight until the forwarding deadline, and
-- unknown after it (K-4.11).
UPDATE rail_submission
   SET outcome     = 'TIMEOUT',
       resolved_at = now()
 WHERE payout_id = :payout_id AND outcome IS NULL
   AND submitted_at + make_interval(secs => :timeout_seconds) <= now()
RETURNING submission_id, payout_id, idempotency_key, presented_token, coalesce(outcome, ''), coalesce(rail_reference, ''), submitted_at, resolved_at;
