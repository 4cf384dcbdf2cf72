-- A guard that a replica's role would silence: no longer ALWAYS.
-- @paydb
ALTER TABLE ledger_entry ENABLE TRIGGER ledger_entry_guard;
-- @finding
0, NULL, NULL, 'ledger_entry_guard'
