-- Nobody will ever know what the rail did, and that is recorded.
-- @paydb
SELECT pg_temp.unpost(p3) FROM scene;
UPDATE payout SET state = 'ABANDONED' FROM scene WHERE payout_id = p3;
UPDATE rail_submission SET outcome = 'TIMEOUT', rail_reference = NULL FROM scene WHERE payout_id = p3;
INSERT INTO payout_resolution (payout_id, source, verdict, evidence, operator, reason, recorded_at)
SELECT p3, 'operator', 'UNDETERMINED', '{"statement": "none"}', 'oncall@example', 'the rail lost its record', at3 + interval '4 s' FROM scene;
