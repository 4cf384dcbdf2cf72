SELECT count(*) FROM lock_entry
