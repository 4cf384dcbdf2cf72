-- The same payments, the last one first.
-- @paydb
SELECT * FROM paid ORDER BY at DESC
