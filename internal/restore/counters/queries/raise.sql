-- Raises counters, and makes those that are missing. None is ever lowered.
INSERT INTO syncguard_fence_counters AS c (fence_key, fence, key_debug)
SELECT n.fence_key, n.fence, n.key FROM unnest(:fence_keys::text[], :fences::bigint[], :keys::text[]) AS n (fence_key, fence, key)
    ON CONFLICT (fence_key) DO UPDATE SET fence = greatest(c.fence, excluded.fence);
