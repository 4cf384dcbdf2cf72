-- Acknowledged here two days ago, and the rail does not list it.
-- @paydb
SELECT paid.* FROM paid WHERE key NOT IN (SELECT idempotency_key FROM scene JOIN payout ON payout_id = p3)
-- @finding
t3, NULL, p3, NULL
