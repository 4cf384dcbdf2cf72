-- Since the sealed run the credit of an old posting was moved to another shard, and
-- both balances were made to fit. Its token did not do that.
-- @paydb
SELECT pg_temp.move(l.account_id, -l.amount_minor), pg_temp.move(c.account_id, l.amount_minor)
  FROM scene s JOIN ledger_entry l ON l.payout_id = s.p1 AND l.direction = 'CREDIT'
  JOIN clearing_account k ON k.account_id = l.account_id JOIN clearing_account c ON c.currency = k.currency AND c.shard = (k.shard + 1) % 4;
UPDATE ledger_entry l SET account_id = c.account_id
  FROM scene s, clearing_account k JOIN clearing_account c ON c.currency = k.currency AND c.shard = (k.shard + 1) % 4
 WHERE l.payout_id = s.p1 AND l.direction = 'CREDIT' AND k.account_id = l.account_id;
-- @finding
0, NULL, p1, NULL
