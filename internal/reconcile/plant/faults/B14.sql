-- The lock is held under a token below the fence: its holder can never post. Whoever
-- holds it is named, although a restore is more likely to be the cause.
-- @lockdb
SELECT pg_temp.held(t3 - 1, account, other_by, '2 minutes') FROM scene;
-- @finding
t3 - 1, account, NULL, NULL
