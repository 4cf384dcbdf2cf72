-- The history was read again and touched, and says what it said.
-- @paydb
UPDATE flyway_schema_history SET success = success;
