SELECT lock_grant_extend();
