-- Opened with nothing, and nothing happened since: that was said.
-- @paydb
SELECT pg_temp.account(x1, currency, 0, NULL) FROM scene;
