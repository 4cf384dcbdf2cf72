-- The clearing shards of the seed, where the seed was not applied (K-4.7, K-9.4).
WITH made AS (
  INSERT INTO account (account_id, currency)
  SELECT ('00000000-0000-4000-9000-' || lpad((4 * c.n + s)::text, 12, '0'))::uuid, c.currency
    FROM (VALUES (0, 'EUR'), (1, 'USD'), (2, 'GBP')) c (n, currency), generate_series(0, 3) s
  ON CONFLICT (account_id) DO NOTHING
  RETURNING account_id, currency
), opened AS (
  INSERT INTO opening_balance (account_id, amount_minor, as_of, recorded_by, reason)
  SELECT account_id, 0, now(), 'plant', 'a clearing account opens empty' FROM made
)
INSERT INTO clearing_account (account_id, currency, shard)
SELECT ('00000000-0000-4000-9000-' || lpad((4 * c.n + s)::text, 12, '0'))::uuid, c.currency, s
  FROM (VALUES (0, 'EUR'), (1, 'USD'), (2, 'GBP')) c (n, currency), generate_series(0, 3) s
ON CONFLICT DO NOTHING;
