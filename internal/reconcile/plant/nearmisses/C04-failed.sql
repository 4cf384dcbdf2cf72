-- Nobody saw the rail's answer, and an operator proved that it had paid nothing.
-- @paydb
SELECT pg_temp.unpost(p3) FROM scene;
UPDATE payout SET state = 'FAILED' FROM scene WHERE payout_id = p3;
UPDATE rail_submission SET outcome = 'TIMEOUT', rail_reference = NULL FROM scene WHERE payout_id = p3;
INSERT INTO payout_resolution (payout_id, source, verdict, evidence, operator, reason, recorded_at)
SELECT p3, 'operator', 'NOT_FOUND', '{"statement": "page 3"}', 'oncall@example', 'the bank does not know it', at3 + interval '3 s' FROM scene;
