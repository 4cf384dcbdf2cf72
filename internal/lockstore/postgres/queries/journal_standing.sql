SELECT EXISTS (SELECT FROM lock_entry WHERE fencing_token >= :from_token AND fencing_token < :to_token);
