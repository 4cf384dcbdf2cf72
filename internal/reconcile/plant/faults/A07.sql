-- Both legs agree with each other, and not with the payout: seven too much.
-- @paydb
UPDATE ledger_entry l SET amount_minor = l.amount_minor + 7 FROM scene s WHERE l.payout_id = s.p3;
SELECT pg_temp.move(account, -7), pg_temp.move(clearing, 7) FROM scene;
-- @finding
t3, account, p3, NULL
