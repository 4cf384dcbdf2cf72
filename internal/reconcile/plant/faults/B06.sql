-- A token inside the journal's range that the journal does not know.
-- @lockdb
DELETE FROM lock_grant USING scene WHERE fencing_token = t3;
-- @finding
t3, NULL, NULL, NULL
