-- The rail lists one payment twice.
-- @paydb
SELECT * FROM paid UNION ALL SELECT * FROM paid WHERE key IN (SELECT idempotency_key FROM scene JOIN payout ON payout_id = p3)
-- @finding
t3, NULL, p3, NULL
