SELECT (SELECT count(*) FROM lock_revocation), (SELECT count(*) FROM operator_log);
