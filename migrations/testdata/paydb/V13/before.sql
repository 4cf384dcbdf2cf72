SELECT to_regclass('payout_resolution') WHERE to_regclass('payout_resolution') IS NOT NULL;
