SELECT to_regclass('payout_claim') WHERE to_regclass('payout_claim') IS NOT NULL;
