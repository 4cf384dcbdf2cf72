-- Whether an operator has said, with a fast-forward of this lockdb, that a token was
-- never issued: the sources where it stood are in the record.
SELECT EXISTS (SELECT FROM operator_log l
                CROSS JOIN LATERAL jsonb_array_elements(CASE jsonb_typeof(l.details -> 'evidence') WHEN 'array' THEN l.details -> 'evidence' ELSE '[]' END) AS e (source)
                WHERE l.action = :action AND e.source ->> 'above_limit' = :token);
