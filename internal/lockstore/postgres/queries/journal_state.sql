-- The token last issued, and the lowest between two ranges, which DEFAULT holds;
-- 0 for none.
SELECT (SELECT CASE WHEN is_called THEN last_value ELSE last_value - 1 END FROM fencing_token_seq),
       coalesce((SELECT min(fencing_token) FROM lock_grant WHERE fencing_token >= :above AND fencing_token < :from_token), 0);
