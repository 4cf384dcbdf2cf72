DELETE FROM lock_entry
 WHERE lock_key      = :key
   AND fencing_token = :token
RETURNING fencing_token;
