-- Counters near their end, the highest first.
SELECT fence_key, fence FROM syncguard_fence_counters WHERE fence > 90000000000000 ORDER BY fence DESC, fence_key;
