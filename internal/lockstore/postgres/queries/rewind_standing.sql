SELECT (SELECT count(*) FROM lock_session), (SELECT count(*) FROM lock_entry), (SELECT coalesce(min(fencing_token), 0) FROM lock_entry);
