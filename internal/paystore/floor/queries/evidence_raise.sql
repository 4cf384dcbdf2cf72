SELECT coalesce(e.raised_to, 0), coalesce('raise ' || e.raise_id, ''), e.raised_at,
       coalesce((SELECT max(raised_to) FROM account_fence_raise WHERE raised_to > :limit_token), 0)
  FROM (VALUES (1)) one LEFT JOIN LATERAL (
    SELECT * FROM account_fence_raise WHERE raised_to <= :limit_token ORDER BY raised_to DESC LIMIT 1) e ON true;
