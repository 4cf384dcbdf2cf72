-- A point without its row refuses every token, and knows none.
SELECT least(f.floor_token, :limit_token), 'floor of account', f.raised_at, CASE WHEN f.floor_token > :limit_token THEN f.floor_token ELSE 0 END
  FROM fence_floor f WHERE f.point = 'account';
