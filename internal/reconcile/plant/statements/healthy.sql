-- Everything that paydb knows as paid, once.
-- @paydb
SELECT * FROM paid
