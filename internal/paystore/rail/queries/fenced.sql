-- A token that came too late, kept for the audit (C1 1.6). It holds no slot.
INSERT INTO rail_submission (submission_id, payout_id, idempotency_key, presented_token, outcome, resolved_at)
VALUES (:submission_id, :payout_id, :idempotency_key, :token, 'FENCED', now());
