-- A version was applied that is not the one these rules were written for.
-- @paydb
UPDATE flyway_schema_history SET checksum = checksum + 1 WHERE version = '11';
-- @finding
0, NULL, NULL, NULL
