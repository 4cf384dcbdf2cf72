-- It posted under a token of the neighbour's lock.
-- @lockdb
UPDATE lock_grant SET lock_key = 'account:' || other FROM scene WHERE fencing_token = t3;
-- @finding
t3, NULL, NULL, NULL
