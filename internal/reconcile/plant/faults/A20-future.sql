-- A debit from tomorrow.
-- @paydb
UPDATE ledger_entry l SET created_at = now() + interval '1 day' FROM scene s WHERE l.payout_id = s.p3 AND l.direction = 'DEBIT';
-- @finding
t3, NULL, p3, NULL
