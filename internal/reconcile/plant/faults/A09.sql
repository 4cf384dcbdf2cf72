-- The payer was credited what it was debited: it nets to zero, and the money is out
-- at the rail.
-- @paydb
SELECT pg_temp.move(l.account_id, -l.amount_minor), pg_temp.move(s.account, l.amount_minor)
  FROM scene s JOIN ledger_entry l ON l.payout_id = s.p3 AND l.direction = 'CREDIT';
UPDATE ledger_entry l SET account_id = s.account FROM scene s WHERE l.payout_id = s.p3 AND l.direction = 'CREDIT';
-- @finding
t3, account, p3, NULL
