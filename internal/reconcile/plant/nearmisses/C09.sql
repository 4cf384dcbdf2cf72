-- No answer, and a second attempt that was refused; then it was abandoned.
-- @paydb
SELECT pg_temp.unpost(p3) FROM scene;
UPDATE payout SET state = 'ABANDONED' FROM scene WHERE payout_id = p3;
UPDATE rail_submission SET outcome = 'TIMEOUT', rail_reference = NULL FROM scene WHERE payout_id = p3;
INSERT INTO payout_resolution (payout_id, source, verdict, evidence, operator, reason, recorded_at)
SELECT p3, 'operator', 'UNDETERMINED', '{"statement": "none"}', 'oncall@example', 'the rail lost its record', at3 + interval '4 s' FROM scene;
SELECT pg_temp.attempt(x1, p3, t3, 'FENCED', NULL) FROM scene;
