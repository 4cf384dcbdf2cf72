-- Without the index each of the four attempts gets a twin.
SELECT * FROM (VALUES ('second attempt', pg_temp.try($q$INSERT INTO rail_submission (submission_id, payout_id, idempotency_key, presented_token) SELECT gen_random_uuid(), payout_id, idempotency_key, 99 FROM rail_submission WHERE outcome IS DISTINCT FROM 'FENCED'$q$), '4')) v (what, got, want) WHERE got IS DISTINCT FROM want;
