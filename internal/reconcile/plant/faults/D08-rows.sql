-- The legs are under row security: the auditor sees none, and no error.
-- @paydb
ALTER TABLE ledger_entry ENABLE ROW LEVEL SECURITY;
-- @finding
0, NULL, NULL, 'ledger_entry'
