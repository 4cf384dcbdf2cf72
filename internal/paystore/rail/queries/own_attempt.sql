-- Whether an insert whose COMMIT got no answer stands.
SELECT submission_id, payout_id, idempotency_key, presented_token, coalesce(outcome, ''), coalesce(rail_reference, ''), submitted_at, resolved_at
  FROM rail_submission
 WHERE submission_id = :submission_id;
