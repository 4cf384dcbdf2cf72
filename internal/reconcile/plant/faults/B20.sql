-- Revoked, says the journal, and no audit row says by whom: it was removed.
-- @lockdb
UPDATE lock_grant g SET ended = 'revoked' FROM scene s WHERE g.fencing_token = s.t2;
-- @finding
0, account, NULL, NULL
