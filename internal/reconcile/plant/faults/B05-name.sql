-- One token for two workers, as after a restore that issued it twice.
-- @paydb
SELECT pg_temp.claimed(p2, t3, other_by) FROM scene;
-- @finding
t3, NULL, NULL, NULL
