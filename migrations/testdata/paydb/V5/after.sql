SELECT conname FROM pg_constraint WHERE (conname LIKE '%\_bound\_ck' OR conname = 'payout_claim_token_ck') AND NOT convalidated;
