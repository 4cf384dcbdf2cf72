-- A key that paydb never heard of, and the rail refused it.
-- @paydb
SELECT * FROM paid UNION ALL SELECT '', 'unknown-' || x1, 4200, currency, 'REJECTED', now() - interval '1 day' FROM scene
