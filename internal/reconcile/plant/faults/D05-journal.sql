-- The trigger that writes the journal is gone from lockdb.
-- @lockdb
DROP TRIGGER lock_grant_begin ON lock_entry;
-- @finding
0, NULL, NULL, 'lock_grant_begin'
