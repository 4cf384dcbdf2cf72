INSERT INTO payout_resolution (payout_id, source, verdict, evidence, operator, reason) VALUES (pg_temp.id('b', 5),  'rail', 'PAID', '{"reference": "r5"}', 'ops@host', 'asked the rail');
SELECT * FROM payout_resolution WHERE login_role <> session_user OR system_identifier <> (SELECT system_identifier FROM pg_control_system()) OR timeline_id <> 1;
SELECT * FROM (VALUES
  ('no evidence',     pg_temp.try($q$INSERT INTO payout_resolution (payout_id, source, verdict, evidence, operator, reason) VALUES (pg_temp.id('b', 5),  'rail', 'PAID', '{}', 'o', 'r')$q$),        '23514 payout_resolution_evidence_ck'),
  ('unknown verdict', pg_temp.try($q$INSERT INTO payout_resolution (payout_id, source, verdict, evidence, operator, reason) VALUES (pg_temp.id('b', 5),  'rail', 'MAYBE', '{"a": 1}', 'o', 'r')$q$), '23514 payout_resolution_verdict_ck'),
  ('nobody',          pg_temp.try($q$INSERT INTO payout_resolution (payout_id, source, verdict, evidence, operator, reason) VALUES (pg_temp.id('b', 5),  'rail', 'PAID', '{"a": 1}', ' ', 'r')$q$),  '23514 payout_resolution_operator_ck'),
  ('no reason',       pg_temp.try($q$INSERT INTO payout_resolution (payout_id, source, verdict, evidence, operator, reason) VALUES (pg_temp.id('b', 5),  'rail', 'PAID', '{"a": 1}', 'o', '')$q$),   '23514 payout_resolution_reason_ck'),
  ('rewritten',       pg_temp.try($q$UPDATE payout_resolution SET verdict = 'REJECTED'$q$), '42501 payout_resolution_append_only')
) v (what, got, want) WHERE got IS DISTINCT FROM want;
