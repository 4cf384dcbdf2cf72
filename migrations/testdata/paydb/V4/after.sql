SELECT * FROM (VALUES
  ('account',         pg_temp.try($q$UPDATE account SET fence = 9007199254740993 WHERE fence = 70$q$),                        '23514 account_fence_bound_ck'),
  ('payout',          pg_temp.try($q$UPDATE payout SET claim_token = 9223372036854775807 WHERE state = 'CLAIMED'$q$),         '23514 payout_claim_bound_ck'),
  ('claim of none',   pg_temp.try($q$UPDATE payout SET claim_token = NULL WHERE state = 'CLAIMED'$q$),                        '23514 payout_claim_token_ck'),
  ('ledger_entry',    pg_temp.try($q$UPDATE ledger_entry SET fence = 9007199254740993 WHERE direction = 'DEBIT'$q$),          '23514 ledger_fence_bound_ck'),
  ('rail_submission', pg_temp.try($q$UPDATE rail_submission SET presented_token = 9007199254740993 WHERE outcome IS NULL$q$), '23514 rail_token_bound_ck'),
  ('rail_high_water', pg_temp.try($q$UPDATE rail_high_water SET highest_token = 9007199254740993 WHERE highest_token = 74$q$), '23514 rail_hwm_bound_ck')
) v (what, got, want) WHERE got IS DISTINCT FROM want;
-- 2^53 itself is a token still.
SELECT got FROM pg_temp.try($q$UPDATE account SET fence = 9007199254740992 WHERE fence = 70$q$) got WHERE got <> '1';
