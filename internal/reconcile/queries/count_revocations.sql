SELECT count(*) FROM lock_revocation
