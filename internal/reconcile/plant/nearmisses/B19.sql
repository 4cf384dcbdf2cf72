-- A token of quite another lock, which wrote nothing here.
-- @lockdb
INSERT INTO lock_grant (fencing_token, lock_key, owner_id, session_id, granted_at, ended_at, ended)
SELECT t3 + 1, 'report:daily', other_by, x1, at3 + interval '6 s', at3 + interval '7 s', 'released' FROM scene;
