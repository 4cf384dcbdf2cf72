-- Half a posting: the CREDIT never came, nor did the clearing account's money, so
-- both balances agree with their legs.
-- @paydb
SELECT pg_temp.move(l.account_id, -l.amount_minor) FROM scene s JOIN ledger_entry l ON l.payout_id = s.p3 AND l.direction = 'CREDIT';
DELETE FROM ledger_entry l USING scene s WHERE l.payout_id = s.p3 AND l.direction = 'CREDIT';
-- @finding
t3, account, p3, NULL
