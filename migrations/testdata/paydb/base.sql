-- A populated paydb that every guard has let pass: run as a superuser, on the last version.
--   accounts  a1 EUR 10,000 fence 10 mark 25 · a2 EUR 500 · a3 USD 500 · c1, c2 clear EUR · c3 clears USD
--   payouts   b1 PENDING (claimed by 20, released) · b2 CLAIMED 21 · b3 RAIL_SUBMITTED 22 · b4 RAIL_ACKED 23
--             b5 RAIL_AMBIGUOUS 24 · b6 RAIL_SUBMITTED 25, without an attempt · b7 PENDING, of a2
INSERT INTO account (account_id, currency, balance_minor, fence) VALUES
  (pg_temp.id('a', 1), 'EUR', 10000, 10), (pg_temp.id('a', 2), 'EUR', 500, 0), (pg_temp.id('a', 3), 'USD', 500, 0),
  (pg_temp.id('c', 1), 'EUR', 0, 0), (pg_temp.id('c', 2), 'EUR', 0, 0), (pg_temp.id('c', 3), 'USD', 0, 0);
INSERT INTO opening_balance (account_id, amount_minor, as_of, recorded_by, reason)
SELECT account_id, balance_minor, now(), 'test', 'test' FROM account;
INSERT INTO clearing_account VALUES (pg_temp.id('c', 1), 'EUR', 0), (pg_temp.id('c', 2), 'EUR', 1), (pg_temp.id('c', 3), 'USD', 0);

INSERT INTO payout (payout_id, account_id, amount_minor, currency, idempotency_key)
SELECT pg_temp.id('b', n), pg_temp.id('a', CASE n WHEN 7 THEN 2 ELSE 1 END), 100, 'EUR', 'k' || n FROM generate_series(1, 7) n;
UPDATE payout SET state = 'CLAIMED', claimed_by = 'w', claim_token = 19 + right(idempotency_key, 1)::int WHERE idempotency_key <= 'k6';
UPDATE payout SET state = 'PENDING', claimed_by = NULL, claim_token = NULL WHERE idempotency_key = 'k1';
UPDATE payout SET state = 'RAIL_SUBMITTED', attempt_count = 1 WHERE idempotency_key BETWEEN 'k3' AND 'k6';
INSERT INTO rail_high_water VALUES (pg_temp.id('a', 1), 22);
INSERT INTO rail_submission (submission_id, payout_id, idempotency_key, presented_token) VALUES (pg_temp.id('e', 3), pg_temp.id('b', 3), 'k3', 22);
UPDATE rail_high_water SET highest_token = 23;
INSERT INTO rail_submission (submission_id, payout_id, idempotency_key, presented_token) VALUES (pg_temp.id('e', 4), pg_temp.id('b', 4), 'k4', 23);
UPDATE rail_high_water SET highest_token = 24;
INSERT INTO rail_submission (submission_id, payout_id, idempotency_key, presented_token) VALUES (pg_temp.id('e', 5), pg_temp.id('b', 5), 'k5', 24);
UPDATE rail_high_water SET highest_token = 25;
UPDATE rail_submission SET outcome = 'ACKED', rail_reference = 'r4', resolved_at = now() WHERE idempotency_key = 'k4';
UPDATE rail_submission SET outcome = 'TIMEOUT', resolved_at = now() WHERE idempotency_key = 'k5';
UPDATE payout SET state = 'RAIL_ACKED' WHERE idempotency_key = 'k4';
UPDATE payout SET state = 'RAIL_AMBIGUOUS' WHERE idempotency_key = 'k5';
INSERT INTO payout_resolution (payout_id, source, verdict, evidence, operator, reason)
VALUES (pg_temp.id('b', 5), 'operator', 'UNDETERMINED', '{"call": 1}', 'o', 'r');
INSERT INTO account_fence_raise (account_id, raised_from, raised_to, operator, reason) VALUES (pg_temp.id('a', 2), 0, 1, 'o', 'r');
