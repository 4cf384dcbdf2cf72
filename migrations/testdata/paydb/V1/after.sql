-- Two payers, one dollar account, two accounts that will clear; a payout in each state.
INSERT INTO account (account_id, currency, balance_minor, fence) VALUES
  (pg_temp.id('a', 1), 'EUR', 9900, 70), (pg_temp.id('a', 2), 'EUR', 5000, 0), (pg_temp.id('a', 3), 'USD', 100, 9),
  (pg_temp.id('c', 1), 'EUR', 100, 0), (pg_temp.id('c', 2), 'USD', 0, 0);
INSERT INTO payout (payout_id, account_id, amount_minor, currency, state, claimed_by, claim_token, idempotency_key, attempt_count) VALUES
  (pg_temp.id('b', 1), pg_temp.id('a', 1), 100, 'EUR', 'PENDING',        NULL, NULL, 'k1', 0),
  (pg_temp.id('b', 2), pg_temp.id('a', 1), 100, 'EUR', 'CLAIMED',        'w1', 71,   'k2', 1),
  (pg_temp.id('b', 3), pg_temp.id('a', 1), 100, 'EUR', 'RAIL_SUBMITTED', 'w1', 72,   'k3', 1),
  (pg_temp.id('b', 4), pg_temp.id('a', 1), 100, 'EUR', 'RAIL_ACKED',     'w1', 73,   'k4', 1),
  (pg_temp.id('b', 5), pg_temp.id('a', 1), 100, 'EUR', 'RAIL_AMBIGUOUS', 'w1', 74,   'k5', 1),
  (pg_temp.id('b', 6), pg_temp.id('a', 1), 100, 'EUR', 'POSTED',         'w1', 70,   'k6', 1),
  (pg_temp.id('b', 7), pg_temp.id('a', 1), 100, 'EUR', 'FAILED',         NULL, NULL, 'k7', 0),
  -- C1 allows a FAILED payout a token without a name.
  (pg_temp.id('b', 8), pg_temp.id('a', 2), 100, 'EUR', 'FAILED',         NULL, 8,    'k8', 1),
  (pg_temp.id('b', 9), pg_temp.id('a', 2), 100, 'EUR', 'ABANDONED',      'w2', 9,    'k9', 1);

-- The failures that C1's table calls impossible.
SELECT * FROM (VALUES
  ('negative balance',     pg_temp.try($q$UPDATE account SET balance_minor = -1$q$),                                '23514 account_balance_ck'),
  ('unknown state',        pg_temp.try($q$UPDATE payout SET state = 'LOST' WHERE state = 'POSTED'$q$),                '23514 payout_state_ck'),
  ('claimed by nobody',    pg_temp.try($q$UPDATE payout SET claimed_by = NULL WHERE state = 'CLAIMED'$q$),           '23514 payout_claimed_ck'),
  ('pending with token',   pg_temp.try($q$UPDATE payout SET claim_token = 1 WHERE state = 'PENDING'$q$),             '23514 payout_pending_ck'),
  ('same key twice',       pg_temp.try($q$UPDATE payout SET idempotency_key = 'k1' WHERE idempotency_key = 'k2'$q$), '23505 payout_idem_uq')
) v (what, got, want) WHERE got IS DISTINCT FROM want;
