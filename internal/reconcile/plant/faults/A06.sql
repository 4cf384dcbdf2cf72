-- More arrived at the clearing account than left the payer.
-- @paydb
UPDATE ledger_entry l SET amount_minor = l.amount_minor + 5 FROM scene s WHERE l.payout_id = s.p3 AND l.direction = 'CREDIT';
SELECT pg_temp.move(clearing, 5) FROM scene;
-- @finding
t3, account, p3, NULL
