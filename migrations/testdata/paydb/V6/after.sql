INSERT INTO clearing_account VALUES (pg_temp.id('c', 1), 'EUR', 0), (pg_temp.id('c', 2), 'USD', 0);
SELECT * FROM (VALUES
  ('wrong currency',  pg_temp.try($q$INSERT INTO clearing_account VALUES (pg_temp.id('a', 3), 'EUR', 1)$q$), '23514 clearing_account_guard'),
  ('with a fence',    pg_temp.try($q$INSERT INTO clearing_account VALUES (pg_temp.id('a', 3), 'USD', 1)$q$), '23514 clearing_account_guard'),
  ('with payouts',    pg_temp.try($q$INSERT INTO clearing_account VALUES (pg_temp.id('a', 2), 'EUR', 1)$q$), '23514 clearing_account_guard'),
  ('no account',      pg_temp.try($q$INSERT INTO clearing_account VALUES (pg_temp.id('f', 1), 'EUR', 1)$q$), '23503 clearing_account_account_id_fkey'),
  ('moved',           pg_temp.try($q$UPDATE clearing_account SET shard = 5$q$),                              '42501 clearing_account_append_only'),
  ('fenced',          pg_temp.try($q$UPDATE account SET fence = 1 WHERE account_id = pg_temp.id('c', 1)$q$), '23514 account_clearing_guard'),
  ('balance moves',   pg_temp.try($q$UPDATE account SET balance_minor = balance_minor + 1 WHERE account_id = pg_temp.id('c', 1)$q$), '1'),
  ('pays out',        pg_temp.try($q$INSERT INTO payout (payout_id, account_id, amount_minor, currency, idempotency_key) VALUES (gen_random_uuid(), pg_temp.id('c', 1), 1, 'EUR', 'x')$q$), '23514 payout_clearing_guard')
) v (what, got, want) WHERE got IS DISTINCT FROM want;
