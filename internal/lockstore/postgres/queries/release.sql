-- C1 1.4, to the letter: key and token, and nothing else.
DELETE FROM lock_entry
 WHERE lock_key      = :key
   AND fencing_token = :token
RETURNING fencing_token;
