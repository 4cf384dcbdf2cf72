-- The operator log of the fences that were drawn, with its chain (K-3.2, K-7.7), as
-- operator_log_chain would have written it then.
DO $$
DECLARE
  drawn fence_drawn%ROWTYPE;
  entry operator_log%ROWTYPE;
BEGIN
  FOR drawn IN SELECT * FROM fence_drawn ORDER BY token LOOP
    SELECT coalesce(max(id), 0) + 1 INTO entry.id FROM operator_log;
    entry.previous_hash := coalesce((SELECT hash FROM operator_log ORDER BY id DESC LIMIT 1), sha256(''));
    entry.logged_at := drawn.logged_at;
    entry.action := 'fence_account';
    entry.operator := 'oncall@example';
    entry.reason := 'the worker hangs';
    entry.token := drawn.token;
    entry.details := jsonb_build_object('key', drawn.lock_key, 'prev_token', drawn.prev_token, 'audit_id',
      (SELECT r.id FROM lock_revocation r WHERE r.prev_token = drawn.prev_token), 'accounts', jsonb_build_array(drawn.account_id));
    entry.login_role := session_user;
    SELECT g.system_identifier, g.timeline_id INTO entry.system_identifier, entry.timeline_id FROM lock_gate g;
    entry.hash := operator_log_hash(entry);
    INSERT INTO operator_log SELECT entry.*;
  END LOOP;
END $$;
DROP TABLE fence_drawn;
