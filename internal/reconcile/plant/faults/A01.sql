-- The debit of p2 was lost: its legs stand, the balance does not know them. Amounts
-- differ within an account, so the drift names p2.
-- @paydb
SELECT pg_temp.move(s.account, p.amount_minor) FROM scene s JOIN payout p ON p.payout_id = s.p2;
-- @finding
t2, account, NULL, NULL
