-- The rail gave the reference of p2 to p3 as well; paydb has its own.
-- @paydb
SELECT coalesce(p.reference, paid.reference), key, amount_minor, currency, status, at
  FROM paid
  LEFT JOIN (SELECT idempotency_key, (SELECT r.rail_reference FROM rail_submission r WHERE r.payout_id = p2) AS reference FROM scene JOIN payout ON payout_id = p3) p
    ON p.idempotency_key = key
-- @finding
t3, NULL, NULL, NULL
