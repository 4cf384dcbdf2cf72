-- A blank reason is still accepted: V5 must live with such rows.
INSERT INTO lock_revocation (lock_key, prev_owner, prev_token, operator, reason) VALUES
  ('old', 'dave', 101, 'erin', 'before the guards'),
  ('old', 'dave', 9223372036854775807, ' ', '');
SELECT 'two rows' WHERE (SELECT count(*) FROM lock_revocation) <> 2;
