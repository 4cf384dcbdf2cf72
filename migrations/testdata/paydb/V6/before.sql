SELECT to_regclass('clearing_account') WHERE to_regclass('clearing_account') IS NOT NULL;
