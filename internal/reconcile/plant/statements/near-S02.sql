-- The statement ends before what was acknowledged in the last hour.
-- @paydb
SELECT * FROM paid WHERE at < now() - interval '1 hour'
