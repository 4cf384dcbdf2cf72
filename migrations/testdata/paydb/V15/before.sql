SELECT to_regclass('fence_floor') WHERE to_regclass('fence_floor') IS NOT NULL;
-- A token from before a restore claims a payout made after it.
SELECT got FROM pg_temp.try($q$UPDATE payout SET state = 'CLAIMED', claimed_by = 'w', claim_token = 90 WHERE idempotency_key = 'k1'$q$) got WHERE got <> '1';
