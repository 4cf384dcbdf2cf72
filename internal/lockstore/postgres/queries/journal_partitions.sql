-- The ranges of the grant journal, lowest first, DEFAULT aside.
SELECT p.oid::regclass::text, b.bounds[1]::bigint, b.bounds[2]::bigint
  FROM pg_inherits i
  JOIN pg_class p ON p.oid = i.inhrelid
 CROSS JOIN LATERAL (SELECT regexp_match(pg_get_expr(p.relpartbound, p.oid), 'FROM \(''(\d+)''\) TO \(''(\d+)''\)') AS bounds) b
 WHERE i.inhparent = 'lock_grant'::regclass AND b.bounds IS NOT NULL
 ORDER BY 2;
