-- A debit from half a minute before its payout existed.
-- @paydb
UPDATE ledger_entry l SET created_at = s.at3 - interval '30 s' FROM scene s WHERE l.payout_id = s.p3 AND l.direction = 'DEBIT';
-- @finding
t3, NULL, p3, NULL
