-- The rail's answer never came, and an operator proved that it had paid.
-- @paydb
UPDATE rail_submission SET outcome = 'TIMEOUT', rail_reference = NULL FROM scene WHERE payout_id = p3;
INSERT INTO payout_resolution (payout_id, source, verdict, evidence, operator, reason, recorded_at)
SELECT p3, 'operator', 'PAID', '{"statement": "page 3"}', 'oncall@example', 'the bank confirmed', at3 + interval '3 s' FROM scene;
