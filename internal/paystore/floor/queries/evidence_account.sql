SELECT coalesce(e.fence, 0), coalesce('account ' || e.account_id, ''), e.updated_at,
       coalesce((SELECT max(fence) FROM account WHERE fence > :limit_token), 0)
  FROM (VALUES (1)) one LEFT JOIN LATERAL (
    SELECT * FROM account WHERE fence <= :limit_token ORDER BY fence DESC LIMIT 1) e ON true;
