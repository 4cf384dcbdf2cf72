-- Paid once, and refused once.
-- @paydb
SELECT pg_temp.attempt(x1, p3, t3, 'FENCED', NULL) FROM scene;
