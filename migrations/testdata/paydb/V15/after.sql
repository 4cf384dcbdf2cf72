SELECT count(*) FROM fence_floor WHERE floor_token = 0 HAVING count(*) <> 2;
-- A floor of 0 refuses nothing.
SELECT got FROM pg_temp.try($q$UPDATE payout SET state = 'CLAIMED', claimed_by = 'w', claim_token = 90 WHERE idempotency_key = 'k1'$q$) got WHERE got <> '1';
UPDATE fence_floor SET floor_token = 1000, raised_by = 'ops', reason = 'fast-forward';
SELECT * FROM (VALUES
  ('claim below',     pg_temp.try($q$UPDATE payout SET state = 'CLAIMED', claimed_by = 'w', claim_token = 90 WHERE idempotency_key = 'k1'$q$), '0'),
  ('claim at',        pg_temp.try($q$UPDATE payout SET state = 'CLAIMED', claimed_by = 'w', claim_token = 1000 WHERE idempotency_key = 'k1'$q$), '0'),
  ('claim above',     pg_temp.try($q$UPDATE payout SET state = 'CLAIMED', claimed_by = 'w', claim_token = 1001 WHERE idempotency_key = 'k1'$q$), '1'),
  ('takeover below',  pg_temp.try($q$UPDATE payout SET claim_token = 90 WHERE state = 'RAIL_ACKED'$q$), '0'),
  ('(a) below',       pg_temp.try($q$UPDATE account SET balance_minor = balance_minor - 1, fence = 90 WHERE account_id = pg_temp.id('a', 2)$q$), '0'),
  ('(a) above',       pg_temp.try($q$UPDATE account SET balance_minor = balance_minor - 1, fence = 1001 WHERE account_id = pg_temp.id('a', 2)$q$), '1'),
  ('clearing moves',  pg_temp.try($q$UPDATE account SET balance_minor = balance_minor + 1 WHERE account_id = pg_temp.id('c', 1)$q$), '1'),
  ('(d) new below',   pg_temp.try($q$INSERT INTO rail_high_water VALUES (pg_temp.id('a', 3), 90)$q$), '0'),
  ('(d) old below',   pg_temp.try($q$INSERT INTO rail_high_water VALUES (pg_temp.id('a', 1), 90) ON CONFLICT (account_id) DO UPDATE SET highest_token = 90$q$), '0'),
  ('(d) above',       pg_temp.try($q$INSERT INTO rail_high_water VALUES (pg_temp.id('a', 1), 1001) ON CONFLICT (account_id) DO UPDATE SET highest_token = 1001$q$), '1'),
  ('floor lowered',   pg_temp.try($q$UPDATE fence_floor SET floor_token = 999$q$), '23514 fence_floor_guard'),
  ('floor gone',      pg_temp.try($q$DELETE FROM fence_floor$q$), '42501 fence_floor_kept'),
  ('third floor',     pg_temp.try($q$INSERT INTO fence_floor (point, raised_by, reason) VALUES ('ledger', 'o', 'r')$q$), '23514 fence_floor_point_ck'),
  ('floor anew',      pg_temp.try($q$INSERT INTO fence_floor (point, raised_by, reason) VALUES ('rail', 'o', 'r')$q$), '23505 fence_floor_pkey')
) v (what, got, want) WHERE got IS DISTINCT FROM want;
