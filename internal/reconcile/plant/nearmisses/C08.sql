-- A key that looks like anything, the same on both sides.
-- @paydb
UPDATE payout SET idempotency_key = 'O''Brien <b>&amp;</b> "%s" ' || p3 || ' ' FROM scene WHERE payout_id = p3;
UPDATE rail_submission SET idempotency_key = 'O''Brien <b>&amp;</b> "%s" ' || p3 || ' ' FROM scene WHERE payout_id = p3;
