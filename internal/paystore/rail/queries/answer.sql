-- K-5.3: what the rail says moves NULL and TIMEOUT, and nothing else.
UPDATE rail_submission
   SET outcome        = :outcome,
       rail_reference = nullif(:rail_reference, ''),
       resolved_at    = now()
 WHERE submission_id = :submission_id AND (outcome IS NULL OR outcome = 'TIMEOUT')
RETURNING submission_id, payout_id, idempotency_key, presented_token, coalesce(outcome, ''), coalesce(rail_reference, ''), submitted_at, resolved_at;
