UPDATE syncguard_fence_counters
   SET fence = fence + 1
 WHERE fence_key = :fence_key
   AND fence >= 0
   AND fence < :last_fence
RETURNING fence;
