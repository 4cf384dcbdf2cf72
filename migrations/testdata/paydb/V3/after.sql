SELECT * FROM (VALUES
  ('second attempt', pg_temp.try($q$INSERT INTO rail_submission (submission_id, payout_id, idempotency_key, presented_token) SELECT gen_random_uuid(), payout_id, idempotency_key, 99 FROM rail_submission WHERE outcome IS DISTINCT FROM 'FENCED'$q$), '23505 rail_submission_attempt_uidx'),
  ('second fenced attempt', pg_temp.try($q$INSERT INTO rail_submission (submission_id, payout_id, idempotency_key, presented_token, outcome, resolved_at) SELECT gen_random_uuid(), payout_id, idempotency_key, 99, 'FENCED', now() FROM rail_submission$q$), '5')
) v (what, got, want) WHERE got IS DISTINCT FROM want;
