SELECT lock_key, fencing_token, owner_id, session_id, granted_at, ended_at, coalesce(ended, '')
  FROM lock_grant WHERE fencing_token = :token;
