SELECT to_regclass('opening_balance') WHERE to_regclass('opening_balance') IS NOT NULL;
