-- The rail's marks, which payapp_resource may not read (K-4.6).
SELECT coalesce(max(highest_token), 0) FROM rail_high_water WHERE highest_token <= :limit_token;
