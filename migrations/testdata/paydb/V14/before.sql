SELECT to_regclass('account_fence_raise') WHERE to_regclass('account_fence_raise') IS NOT NULL;
