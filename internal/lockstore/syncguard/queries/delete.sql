DELETE FROM syncguard_locks
 WHERE key = :key
   AND lock_id = :lock_id;
