SELECT count(*) FROM lock_grant
