-- The attempt that holds the payout's slot.
SELECT submission_id, payout_id, idempotency_key, presented_token, coalesce(outcome, ''), coalesce(rail_reference, ''), submitted_at, resolved_at
  FROM rail_submission
 WHERE payout_id = :payout_id AND outcome IS DISTINCT FROM 'FENCED';
