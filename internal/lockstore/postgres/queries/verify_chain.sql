-- The operator log's links: numbers without a gap from 1, each with its own hash
-- right and with the hash of the one before (K-3.6).
SELECT finding, id FROM (
  SELECT CASE
           WHEN id <> coalesce(lag(id) OVER links, 0) + 1 THEN 'chain_gap'
           WHEN previous_hash <> coalesce(lag(hash) OVER links, sha256('')) OR hash <> operator_log_hash(record) THEN 'chain_broken'
         END AS finding, id
    FROM operator_log record
  WINDOW links AS (ORDER BY id)
) links
 WHERE finding IS NOT NULL
 ORDER BY id
 LIMIT 1;
