-- Paid at the rail, under a key that paydb never heard of.
-- @paydb
SELECT * FROM paid UNION ALL SELECT 'rail-of-' || x1, 'unknown-' || x1, 4200, currency, 'PAID', now() - interval '1 day' FROM scene
-- @finding
0, NULL, NULL, NULL
