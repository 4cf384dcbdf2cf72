SELECT * FROM (VALUES
  ('resource reads accounts',  has_table_privilege('payapp_resource', 'account', 'SELECT'),                  false),
  ('resource posts',           has_column_privilege('payapp_resource', 'ledger_entry', 'fence', 'INSERT'),   false),
  ('resource and the mark',    has_table_privilege('payapp_resource', 'rail_high_water', 'SELECT'),          false),
  ('rail moves the mark',      has_column_privilege('payapp_rail', 'rail_high_water', 'highest_token', 'UPDATE'), false),
  ('rail and payouts',         has_any_column_privilege('payapp_rail', 'payout', 'UPDATE'),                  false),
  ('auditor reads the mark',   has_table_privilege('dlock_auditor', 'rail_high_water', 'SELECT'),            false),
  ('auditor writes',           has_any_column_privilege('dlock_auditor', 'account', 'UPDATE'),               false),
  ('lock-server reads',        has_any_column_privilege('lockapp', 'account', 'SELECT'),                     false)
) v (what, got, want) WHERE got IS DISTINCT FROM want;
