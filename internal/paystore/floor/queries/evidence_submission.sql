SELECT coalesce(e.presented_token, 0), coalesce('attempt ' || e.submission_id, ''), e.submitted_at,
       coalesce((SELECT max(presented_token) FROM rail_submission WHERE presented_token > :limit_token), 0)
  FROM (VALUES (1)) one LEFT JOIN LATERAL (
    SELECT * FROM rail_submission WHERE presented_token <= :limit_token ORDER BY presented_token DESC LIMIT 1) e ON true;
