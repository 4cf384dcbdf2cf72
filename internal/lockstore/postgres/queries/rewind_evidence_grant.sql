SELECT coalesce(g.fencing_token, 0), coalesce('lock ' || quote_literal(g.lock_key), ''), g.granted_at,
       coalesce((SELECT max(fencing_token) FROM lock_grant WHERE fencing_token > :limit_token), 0), ''
  FROM (VALUES (1)) one LEFT JOIN LATERAL (
    SELECT * FROM lock_grant WHERE fencing_token <= :limit_token ORDER BY fencing_token DESC LIMIT 1) g ON true;
