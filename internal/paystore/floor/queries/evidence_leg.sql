SELECT coalesce(e.fence, 0), coalesce('leg ' || e.entry_id, ''), e.created_at,
       coalesce((SELECT max(fence) FROM ledger_entry WHERE fence > :limit_token), 0)
  FROM (VALUES (1)) one LEFT JOIN LATERAL (
    SELECT * FROM ledger_entry WHERE fence <= :limit_token ORDER BY fence DESC LIMIT 1) e ON true;
