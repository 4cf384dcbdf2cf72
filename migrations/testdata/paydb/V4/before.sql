SELECT * FROM (VALUES
  ('account',         pg_temp.try($q$UPDATE account SET fence = 9007199254740993 WHERE fence = 70$q$),                        '1'),
  ('payout',          pg_temp.try($q$UPDATE payout SET claim_token = 9223372036854775807 WHERE state = 'CLAIMED'$q$),         '1'),
  ('claim of none',   pg_temp.try($q$UPDATE payout SET claim_token = NULL WHERE state = 'CLAIMED'$q$),                        '1'),
  ('ledger_entry',    pg_temp.try($q$UPDATE ledger_entry SET fence = 9007199254740993 WHERE direction = 'DEBIT'$q$),          '1'),
  ('rail_submission', pg_temp.try($q$UPDATE rail_submission SET presented_token = 9007199254740993 WHERE outcome IS NULL$q$), '1'),
  ('rail_high_water', pg_temp.try($q$UPDATE rail_high_water SET highest_token = 9007199254740993 WHERE highest_token = 74$q$), '1')
) v (what, got, want) WHERE got IS DISTINCT FROM want;
