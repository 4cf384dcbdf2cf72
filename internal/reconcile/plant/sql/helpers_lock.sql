-- What the faults on lockdb are made of. Triggers are silent: the journal is
-- written here.

-- A grant on the lock of an account, which ended with a release a second later.
CREATE OR REPLACE FUNCTION pg_temp.granted(token BIGINT, account UUID, by_ TEXT, at_ TIMESTAMPTZ) RETURNS void LANGUAGE sql AS $$
  INSERT INTO lock_grant (fencing_token, lock_key, owner_id, session_id, granted_at, ended_at, ended)
  VALUES (token, 'account:' || account, by_, md5('session' || by_)::uuid, at_, at_ + interval '1 s', 'released')
$$;

-- A grant that stands, in a session that lives.
CREATE OR REPLACE FUNCTION pg_temp.held(token BIGINT, account UUID, by_ TEXT, ago INTERVAL) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO lock_session (session_id, owner_id, created_at, expires_at)
  VALUES (md5('session' || by_)::uuid, by_, now() - interval '1 day', now() + interval '12 hours') ON CONFLICT DO NOTHING;
  INSERT INTO lock_entry (lock_key, owner_id, session_id, fencing_token, acquired_at, expires_at)
  VALUES ('account:' || account, by_, md5('session' || by_)::uuid, token, now() - ago, now() + interval '12 hours');
  INSERT INTO lock_grant (fencing_token, lock_key, owner_id, session_id, granted_at)
  VALUES (token, 'account:' || account, by_, md5('session' || by_)::uuid, now() - ago);
END $$;

-- A revocation, and the end that the journal tells of it.
CREATE OR REPLACE FUNCTION pg_temp.revoked(token BIGINT, account UUID, by_ TEXT, at_ TIMESTAMPTZ) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO lock_revocation (lock_key, prev_owner, prev_token, operator, reason, revoked_at)
  VALUES ('account:' || account, by_, token, 'oncall@example', 'the worker hangs', at_);
  UPDATE lock_grant SET ended = 'revoked', ended_at = at_ WHERE fencing_token = token;
END $$;

-- A fence that an operator drew against a token, with its link in the chain.
CREATE OR REPLACE FUNCTION pg_temp.fence_drawn(fence BIGINT, against BIGINT, account UUID) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  entry operator_log%ROWTYPE;
BEGIN
  SELECT coalesce(max(id), 0) + 1 INTO entry.id FROM operator_log;
  entry.previous_hash := coalesce((SELECT hash FROM operator_log ORDER BY id DESC LIMIT 1), sha256(''));
  entry.logged_at := now();
  entry.action := 'fence_account';
  entry.operator := 'oncall@example';
  entry.reason := 'the worker hangs';
  entry.token := fence;
  entry.details := jsonb_build_object('key', 'account:' || account, 'prev_token', against, 'audit_id', 0, 'accounts', jsonb_build_array(account));
  entry.login_role := session_user;
  SELECT g.system_identifier, g.timeline_id INTO entry.system_identifier, entry.timeline_id FROM lock_gate g;
  entry.hash := operator_log_hash(entry);
  INSERT INTO operator_log SELECT entry.*;
END $$;
