-- The rail paid one unit more.
-- @paydb
SELECT reference, key, amount_minor + CASE WHEN p.payout_id IS NOT NULL THEN 1 ELSE 0 END, paid.currency, status, at
  FROM paid LEFT JOIN (SELECT payout_id, idempotency_key FROM scene JOIN payout ON payout_id = p3) p ON p.idempotency_key = key
-- @finding
t3, NULL, p3, NULL
