SELECT * FROM (VALUES
  ('fence lowered',  pg_temp.try($q$UPDATE account SET fence = 69 WHERE fence = 70$q$),                    '1'),
  ('fence raised',   pg_temp.try($q$UPDATE account SET fence = 71 WHERE fence = 70$q$),                    '1'),
  ('other currency', pg_temp.try($q$UPDATE account SET currency = 'CHF' WHERE fence = 70$q$),              '1'),
  ('account gone',   pg_temp.try($q$DELETE FROM account WHERE account_id = pg_temp.id('a', 3)$q$),         '1'),
  ('mark lowered',   pg_temp.try($q$UPDATE rail_high_water SET highest_token = 73 WHERE highest_token = 74$q$), '1'),
  ('mark raised',    pg_temp.try($q$UPDATE rail_high_water SET highest_token = 75 WHERE highest_token = 74$q$), '1'),
  ('mark gone',      pg_temp.try($q$DELETE FROM rail_high_water WHERE highest_token = 74$q$),              '1'),
  ('marks gone',     pg_temp.try($q$TRUNCATE rail_high_water$q$),                                          '0')
) v (what, got, want) WHERE got IS DISTINCT FROM want;
