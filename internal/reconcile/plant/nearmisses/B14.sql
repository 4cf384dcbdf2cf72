-- The lock is still held by the token that posted last.
-- @lockdb
INSERT INTO lock_session (session_id, owner_id, created_at, expires_at) SELECT x1, by3, at3, now() + interval '12 hours' FROM scene;
UPDATE lock_grant SET ended = NULL, ended_at = NULL, session_id = x1 FROM scene WHERE fencing_token = t3;
INSERT INTO lock_entry SELECT lock_key, owner_id, session_id, fencing_token, granted_at, now() + interval '12 hours' FROM lock_grant JOIN scene ON fencing_token = t3;
