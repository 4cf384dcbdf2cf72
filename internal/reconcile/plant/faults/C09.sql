-- Its holder before got no answer, and p3 was submitted a second time.
-- drops: rail_submission_attempt_uidx
-- @paydb
DROP INDEX IF EXISTS rail_submission_attempt_uidx;
SELECT pg_temp.claimed(p3, t3 - 1, other_by), pg_temp.attempt(x1, p3, t3 - 1, 'TIMEOUT', NULL) FROM scene;
UPDATE rail_submission SET submitted_at = at3, resolved_at = at3 + interval '1 s' FROM scene WHERE submission_id = x1;
-- @lockdb
SELECT pg_temp.granted(t3 - 1, account, other_by, at3 - interval '2 s') FROM scene;
-- @finding
t3, account, p3, NULL
