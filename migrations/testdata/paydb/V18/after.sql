SELECT * FROM (VALUES
  ('resource reads accounts',  has_table_privilege('payapp_resource', 'account', 'SELECT'),                  true),
  ('resource posts',           has_column_privilege('payapp_resource', 'ledger_entry', 'fence', 'INSERT'),   true),
  ('resource and the mark',    has_table_privilege('payapp_resource', 'rail_high_water', 'SELECT'),          false),
  ('rail moves the mark',      has_column_privilege('payapp_rail', 'rail_high_water', 'highest_token', 'UPDATE'), true),
  ('rail and payouts',         has_any_column_privilege('payapp_rail', 'payout', 'UPDATE'),                  false),
  ('auditor reads the mark',   has_table_privilege('dlock_auditor', 'rail_high_water', 'SELECT'),            true),
  ('auditor writes',           has_any_column_privilege('dlock_auditor', 'account', 'UPDATE'),               false),
  ('lock-server reads',        has_any_column_privilege('lockapp', 'account', 'SELECT'),                     false)
) v (what, got, want) WHERE got IS DISTINCT FROM want;
-- Eighteen versions later every row that was there is there.
SELECT count(*) FROM account HAVING count(*) <> 5;
SELECT count(*) FROM payout HAVING count(*) <> 9;
SELECT count(*) FROM ledger_entry HAVING count(*) <> 2;
SELECT count(*) FROM rail_submission HAVING count(*) <> 5;
SELECT count(*) FROM rail_high_water HAVING count(*) <> 2;
