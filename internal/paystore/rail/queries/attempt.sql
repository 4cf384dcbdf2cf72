-- K-4.11: the payout's one attempt, in the transaction of its mark. No row: the
-- slot is taken, or the floor has risen past the token since the mark was set.
INSERT INTO rail_submission (submission_id, payout_id, idempotency_key, presented_token)
VALUES (:submission_id, :payout_id, :idempotency_key, :token)
ON CONFLICT (payout_id) WHERE outcome IS DISTINCT FROM 'FENCED' DO NOTHING
RETURNING submission_id, payout_id, idempotency_key, presented_token, coalesce(outcome, ''), coalesce(rail_reference, ''), submitted_at, resolved_at;
