-- Whether an operator has said, with a fast-forward, that a token was never issued.
SELECT EXISTS (SELECT FROM operator_log l
                CROSS JOIN LATERAL jsonb_array_elements(CASE jsonb_typeof(l.details -> 'evidence') WHEN 'array' THEN l.details -> 'evidence' ELSE '[]' END) AS e (source)
                WHERE l.action = 'fast_forward' AND e.source ->> 'above_limit' = $1::bigint::text);
