-- The credit went to a stranger's account, of the payout's currency, and not to
-- clearing. Its fence is above the leg's token: nothing else shows it.
-- @paydb
SELECT pg_temp.account(x1, currency, 0, NULL) FROM scene;
UPDATE account SET fence = t3 FROM scene WHERE account_id = x1;
SELECT pg_temp.move(l.account_id, -l.amount_minor), pg_temp.move(s.x1, l.amount_minor)
  FROM scene s JOIN ledger_entry l ON l.payout_id = s.p3 AND l.direction = 'CREDIT';
UPDATE ledger_entry l SET account_id = s.x1 FROM scene s WHERE l.payout_id = s.p3 AND l.direction = 'CREDIT';
-- @finding
t3, NULL, p3, NULL
