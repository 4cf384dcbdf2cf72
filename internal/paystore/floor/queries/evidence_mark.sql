SELECT coalesce(e.highest_token, 0), coalesce('account ' || e.account_id, ''), e.updated_at,
       coalesce((SELECT max(highest_token) FROM rail_high_water WHERE highest_token > :limit_token), 0)
  FROM (VALUES (1)) one LEFT JOIN LATERAL (
    SELECT * FROM rail_high_water WHERE highest_token <= :limit_token ORDER BY highest_token DESC LIMIT 1) e ON true;
