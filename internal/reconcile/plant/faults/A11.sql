-- POSTED, and nothing was posted.
-- @paydb
SELECT pg_temp.unpost(p3) FROM scene;
-- @finding
t3, account, p3, NULL
