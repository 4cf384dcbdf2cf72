INSERT INTO account_fence_raise (account_id, raised_from, raised_to, operator, reason) VALUES (pg_temp.id('a', 3),  9, 12, 'ops@host', 'revoked its holder');
UPDATE account SET fence = 12 WHERE account_id = pg_temp.id('a', 3);
SELECT * FROM (VALUES
  ('twice',     pg_temp.try($q$INSERT INTO account_fence_raise (account_id, raised_from, raised_to, operator, reason) VALUES (pg_temp.id('a', 3),  9, 12, 'o', 'r')$q$),               '23505 account_fence_raise_uq'),
  ('lowered',   pg_temp.try($q$INSERT INTO account_fence_raise (account_id, raised_from, raised_to, operator, reason) VALUES (pg_temp.id('a', 3),  12, 9, 'o', 'r')$q$),               '23514 account_fence_raise_token_ck'),
  ('forged',    pg_temp.try($q$INSERT INTO account_fence_raise (account_id, raised_from, raised_to, operator, reason) VALUES (pg_temp.id('a', 3),  12, 9007199254740993, 'o', 'r')$q$), '23514 account_fence_raise_token_ck'),
  ('rewritten', pg_temp.try($q$DELETE FROM account_fence_raise$q$),    '42501 account_fence_raise_append_only')
) v (what, got, want) WHERE got IS DISTINCT FROM want;
