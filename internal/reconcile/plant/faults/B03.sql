-- The zombie: p2 was posted ten minutes after p3, under the lower token.
-- @paydb
UPDATE ledger_entry l SET created_at = s.at3 + interval '10 minutes' FROM scene s WHERE l.payout_id = s.p2;
UPDATE payout SET updated_at = at3 + interval '10 minutes' FROM scene WHERE payout_id = p2;
-- @finding
t2, account, NULL, NULL
