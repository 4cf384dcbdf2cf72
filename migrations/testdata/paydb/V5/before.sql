SELECT conname FROM pg_constraint WHERE (conname LIKE '%\_bound\_ck' OR conname = 'payout_claim_token_ck') AND convalidated;
SELECT count(*) FROM pg_constraint WHERE (conname LIKE '%\_bound\_ck' OR conname = 'payout_claim_token_ck') HAVING count(*) <> 6;
