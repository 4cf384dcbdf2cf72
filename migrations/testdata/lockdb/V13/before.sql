SELECT 'settings', proname FROM pg_proc WHERE proname = 'lock_grant_extend' AND cardinality(proconfig) <> 2;
