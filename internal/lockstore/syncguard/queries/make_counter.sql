-- The first of two steps: an absent row cannot be raised.
INSERT INTO syncguard_fence_counters (fence_key, fence, key_debug)
VALUES (:fence_key, 0, :key)
ON CONFLICT (fence_key) DO NOTHING;
