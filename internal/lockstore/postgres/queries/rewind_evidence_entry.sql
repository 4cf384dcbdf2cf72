SELECT coalesce(e.fencing_token, 0), coalesce('lock ' || quote_literal(e.lock_key), ''), e.acquired_at,
       coalesce((SELECT max(fencing_token) FROM lock_entry WHERE fencing_token > :limit_token), 0), ''
  FROM (VALUES (1)) one LEFT JOIN LATERAL (
    SELECT * FROM lock_entry WHERE fencing_token <= :limit_token ORDER BY fencing_token DESC LIMIT 1) e ON true;
