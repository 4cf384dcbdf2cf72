-- Refusals have no reference: many empty ones are not one reference twice.
-- @paydb
SELECT * FROM paid UNION ALL SELECT '', 'refused-' || i || '-' || x1, 4200, currency, 'REJECTED', now() - interval '1 day' FROM scene, generate_series(1, 2) i
