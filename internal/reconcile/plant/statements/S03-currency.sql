-- The rail paid the same number in another currency.
-- @paydb
SELECT reference, key, amount_minor, CASE WHEN p.payout_id IS NOT NULL THEN p.foreign_currency ELSE paid.currency END, status, at
  FROM paid LEFT JOIN (SELECT payout_id, idempotency_key, foreign_currency FROM scene JOIN payout ON payout_id = p3) p ON p.idempotency_key = key
-- @finding
t3, NULL, p3, NULL
