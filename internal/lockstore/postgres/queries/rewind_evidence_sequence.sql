SELECT least(last, :limit_token), 'fencing_token_seq', NULL::timestamptz, CASE WHEN last > :limit_token THEN last ELSE 0 END, ''
  FROM (SELECT CASE WHEN is_called THEN last_value ELSE last_value - 1 END AS last FROM fencing_token_seq) s;
