-- Synthetic accounts for dev, demo and tests (K-9.4): invented, and never real.
-- Idempotent: an account that stands is left as it is, whatever its balance has
-- become, and only an account made here gets an opening balance (K-4.8).
-- Account n is 00000000-0000-4000-8000-<n in 12 digits>; the clearing shards are
-- 00000000-0000-4000-9000-<n in 12 digits> (K-4.7).
-- Locks: none that a reader or writer notices.

WITH wanted (n, currency, opening) AS (VALUES
  ( 1, 'EUR',   1000000), ( 2, 'EUR',    250000), ( 3, 'EUR',     99999), ( 4, 'EUR',  5000000),
  ( 5, 'EUR',         1), ( 6, 'EUR',         0), ( 7, 'EUR',  75000000), ( 8, 'EUR',     12345),
  ( 9, 'USD',   1000000), (10, 'USD',    640000), (11, 'USD',     50000), (12, 'USD', 900000000),
  (13, 'USD',       100), (14, 'USD',         0), (15, 'GBP',   1000000), (16, 'GBP',    333333),
  (17, 'GBP',     80000), (18, 'GBP',  20000000), (19, 'GBP',       999), (20, 'GBP',         0)
), made AS (
  INSERT INTO account (account_id, currency, balance_minor)
  SELECT ('00000000-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid, currency, opening FROM wanted
  ON CONFLICT (account_id) DO NOTHING
  RETURNING account_id, balance_minor
)
INSERT INTO opening_balance (account_id, amount_minor, as_of, recorded_by, reason)
SELECT account_id, balance_minor, now(), 'R__seed_synthetic_accounts', 'synthetic opening balance' FROM made;

WITH made AS (
  INSERT INTO account (account_id, currency)
  SELECT ('00000000-0000-4000-9000-' || lpad((4 * c.n + s)::text, 12, '0'))::uuid, c.currency
    FROM (VALUES (0, 'EUR'), (1, 'USD'), (2, 'GBP')) c (n, currency), generate_series(0, 3) s
  ON CONFLICT (account_id) DO NOTHING
  RETURNING account_id, balance_minor
)
INSERT INTO opening_balance (account_id, amount_minor, as_of, recorded_by, reason)
SELECT account_id, balance_minor, now(), 'R__seed_synthetic_accounts', 'a clearing account opens empty' FROM made;

INSERT INTO clearing_account (account_id, currency, shard)
SELECT ('00000000-0000-4000-9000-' || lpad((4 * c.n + s)::text, 12, '0'))::uuid, c.currency, s
  FROM (VALUES (0, 'EUR'), (1, 'USD'), (2, 'GBP')) c (n, currency), generate_series(0, 3) s
ON CONFLICT DO NOTHING;
