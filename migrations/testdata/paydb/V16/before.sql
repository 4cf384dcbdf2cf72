SELECT to_regclass('pay_gate') WHERE to_regclass('pay_gate') IS NOT NULL;
SELECT got FROM pg_temp.try($q$UPDATE payout SET state = 'CLAIMED', claimed_by = 'w', claim_token = 1001 WHERE idempotency_key = 'k1'$q$) got WHERE got <> '1';
