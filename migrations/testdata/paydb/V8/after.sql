SELECT * FROM (VALUES
  ('fence lowered',  pg_temp.try($q$UPDATE account SET fence = 69 WHERE fence = 70$q$),                    '23514 account_guard'),
  ('fence raised',   pg_temp.try($q$UPDATE account SET fence = 71 WHERE fence = 70$q$),                    '1'),
  ('other currency', pg_temp.try($q$UPDATE account SET currency = 'CHF' WHERE fence = 70$q$),              '23514 account_guard'),
  ('account gone',   pg_temp.try($q$DELETE FROM account WHERE account_id = pg_temp.id('a', 3)$q$),         '42501 account_kept'),
  ('mark lowered',   pg_temp.try($q$UPDATE rail_high_water SET highest_token = 73 WHERE highest_token = 74$q$), '23514 rail_high_water_guard'),
  ('mark raised',    pg_temp.try($q$UPDATE rail_high_water SET highest_token = 75 WHERE highest_token = 74$q$), '1'),
  ('mark gone',      pg_temp.try($q$DELETE FROM rail_high_water WHERE highest_token = 74$q$),              '42501 rail_high_water_kept'),
  ('marks gone',     pg_temp.try($q$TRUNCATE rail_high_water$q$),                                          '42501 rail_high_water_kept')
) v (what, got, want) WHERE got IS DISTINCT FROM want;
