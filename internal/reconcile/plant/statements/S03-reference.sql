-- The rail lists it under another reference than it gave.
-- @paydb
SELECT CASE WHEN p.payout_id IS NOT NULL THEN 'another-' || reference ELSE reference END, key, amount_minor, paid.currency, status, at
  FROM paid LEFT JOIN (SELECT payout_id, idempotency_key FROM scene JOIN payout ON payout_id = p3) p ON p.idempotency_key = key
-- @finding
t3, NULL, p3, NULL
