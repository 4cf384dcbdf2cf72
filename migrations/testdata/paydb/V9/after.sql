SELECT * FROM (VALUES
  ('posted comes back',  pg_temp.try($q$UPDATE payout SET state = 'PENDING', claimed_by = NULL, claim_token = NULL WHERE state = 'POSTED'$q$), '23514 payout_guard'),
  ('skips the rail',     pg_temp.try($q$UPDATE payout SET state = 'POSTED' WHERE state = 'CLAIMED'$q$),     '23514 payout_guard'),
  ('pays more',          pg_temp.try($q$UPDATE payout SET amount_minor = 70000 WHERE state = 'CLAIMED'$q$), '23514 payout_guard'),
  ('pays from another',  pg_temp.try($q$UPDATE payout SET account_id = pg_temp.id('a', 2) WHERE state = 'CLAIMED'$q$), '23514 payout_guard'),
  ('other claimant',     pg_temp.try($q$UPDATE payout SET claimed_by = 'thief' WHERE state = 'CLAIMED'$q$), '23514 payout_guard'),
  ('lower token',        pg_temp.try($q$UPDATE payout SET claim_token = 70 WHERE state = 'CLAIMED'$q$),     '23514 payout_guard'),
  ('higher token',       pg_temp.try($q$UPDATE payout SET claim_token = 75 WHERE state = 'CLAIMED'$q$),     '1'),
  ('born claimed',       pg_temp.try($q$INSERT INTO payout (payout_id, account_id, amount_minor, currency, idempotency_key, state, claimed_by, claim_token) VALUES (gen_random_uuid(), pg_temp.id('a', 2), 1, 'EUR', 'x', 'CLAIMED', 'w', 1)$q$), '23514 payout_new_guard'),
  ('dollars from euros', pg_temp.try($q$INSERT INTO payout (payout_id, account_id, amount_minor, currency, idempotency_key) VALUES (gen_random_uuid(), pg_temp.id('a', 2), 1, 'USD', 'x')$q$), '23514 payout_new_guard'),
  ('payout gone',        pg_temp.try($q$DELETE FROM payout WHERE idempotency_key = 'k7'$q$),                '42501 payout_kept')
) v (what, got, want) WHERE got IS DISTINCT FROM want;
