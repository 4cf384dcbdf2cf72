-- A migration was recorded: to be planted while a run is under way. It is a seed again,
-- so that D07 has nothing to say.
-- @paydb
INSERT INTO flyway_schema_history (installed_rank, version, description, type, script, checksum, installed_by, execution_time, success)
SELECT max(installed_rank) + 1, NULL, 'seed synthetic accounts', 'SQL', 'R__seed_synthetic_accounts.sql',
       (SELECT checksum FROM flyway_schema_history WHERE version IS NULL AND type = 'SQL' ORDER BY installed_rank DESC LIMIT 1), session_user, 1, true
  FROM flyway_schema_history;
-- @finding
0, NULL, NULL, NULL
