SELECT session_id FROM lock_entry WHERE lock_key = :key;
