-- Three legs: the credit was split over two shards. Their sums agree.
-- drops: ledger_direction_uidx
-- @paydb
DROP INDEX IF EXISTS ledger_direction_uidx;
UPDATE ledger_entry l SET amount_minor = l.amount_minor - 40 FROM scene s WHERE l.payout_id = s.p3 AND l.direction = 'CREDIT';
INSERT INTO ledger_entry SELECT x1, p3, spare, 'CREDIT', 40, t3, l.created_at FROM scene s JOIN ledger_entry l ON l.payout_id = s.p3 AND l.direction = 'CREDIT';
SELECT pg_temp.move(clearing, -40), pg_temp.move(spare, 40) FROM scene;
-- @finding
t3, NULL, p3, NULL
