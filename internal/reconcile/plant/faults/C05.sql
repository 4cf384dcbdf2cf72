-- Paid twice, under the same token: a retry that nothing stopped.
-- drops: rail_submission_attempt_uidx
-- @paydb
DROP INDEX IF EXISTS rail_submission_attempt_uidx;
SELECT pg_temp.attempt(x1, p3, t3, 'ACKED', 'again-' || p3) FROM scene;
-- @finding
t3, account, p3, NULL
