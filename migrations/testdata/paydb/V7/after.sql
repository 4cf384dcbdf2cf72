-- Account a1 opened with 10,000 and paid 100; a2 has no opening and stays UNANCHORED.
INSERT INTO opening_balance (account_id, amount_minor, as_of, recorded_by, reason)
VALUES (pg_temp.id('a', 1), 10000, '2026-01-01', 'ops', 'imported'), (pg_temp.id('c', 1), 0, '2026-01-01', 'ops', 'clearing');
SELECT * FROM (VALUES
  ('twice',     pg_temp.try($q$INSERT INTO opening_balance (account_id, amount_minor, as_of, recorded_by, reason) VALUES (pg_temp.id('a', 1), 1, now(), 'x', 'x')$q$), '23505 opening_balance_pkey'),
  ('no reason', pg_temp.try($q$INSERT INTO opening_balance (account_id, amount_minor, as_of, recorded_by, reason) VALUES (pg_temp.id('a', 2), 1, now(), 'x', ' ')$q$), '23514 opening_balance_reason_ck'),
  ('rewritten', pg_temp.try($q$UPDATE opening_balance SET amount_minor = 1$q$), '42501 opening_balance_append_only')
) v (what, got, want) WHERE got IS DISTINCT FROM want;
