-- The claims that stood are known, also the one without a name; payouts never claimed have none.
SELECT * FROM (
  SELECT payout_id, claim_token, claimed_by FROM payout_claim
  EXCEPT ALL
  SELECT payout_id, claim_token, coalesce(claimed_by, 'unknown') FROM payout WHERE claim_token IS NOT NULL) surplus;
SELECT count(*) FROM payout_claim HAVING count(*) <> 7;

-- Claimed by 80 and released: 79 comes too late, 80 has been used, 81 may.
UPDATE payout SET state = 'CLAIMED', claimed_by = 'w3', claim_token = 80 WHERE idempotency_key = 'k1';
UPDATE payout SET state = 'PENDING', claimed_by = NULL, claim_token = NULL WHERE idempotency_key = 'k1';
SELECT * FROM (VALUES
  ('zombie 79', pg_temp.try($q$UPDATE payout SET state = 'CLAIMED', claimed_by = 'z', claim_token = 79 WHERE idempotency_key = 'k1'$q$), '0'),
  ('again 80',  pg_temp.try($q$UPDATE payout SET state = 'CLAIMED', claimed_by = 'z', claim_token = 80 WHERE idempotency_key = 'k1'$q$), '0'),
  ('newer 81',  pg_temp.try($q$UPDATE payout SET state = 'CLAIMED', claimed_by = 'w', claim_token = 81 WHERE idempotency_key = 'k1'$q$), '1'),
  ('rewritten', pg_temp.try($q$UPDATE payout_claim SET claim_token = 1$q$), '42501 payout_claim_append_only')
) v (what, got, want) WHERE got IS DISTINCT FROM want;
SELECT claimed_by FROM payout_claim WHERE claim_token = 80 AND claimed_by <> 'w3';
SELECT count(*) FROM payout_claim WHERE claim_token = 80 HAVING count(*) <> 1;
-- The next holder of an account finds its open payouts, and no others, by an index.
SELECT 'payout_open_idx' WHERE NOT EXISTS (
  SELECT FROM pg_indexes WHERE schemaname = current_schema() AND indexname = 'payout_open_idx' AND indexdef LIKE '%(account_id)%CLAIMED%RAIL_SUBMITTED%RAIL_ACKED%RAIL_AMBIGUOUS%');
