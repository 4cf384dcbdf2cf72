-- A version that these rules do not know.
-- @paydb
INSERT INTO flyway_schema_history (installed_rank, version, description, type, script, checksum, installed_by, execution_time, success)
SELECT max(installed_rank) + 1, '999', 'from the future', 'SQL', 'V999__from_the_future.sql', 1, session_user, 1, true FROM flyway_schema_history;
-- @finding
0, NULL, NULL, NULL
