-- The audit of what operators did to a SyncGuard deployment: a table of dlockctl's own beside SyncGuard's two, which
-- are left as they are and which it does not refer to. It may be run again.
CREATE TABLE IF NOT EXISTS dlockctl_syncguard_audit (
  id             BIGINT      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  recorded_at    TIMESTAMPTZ NOT NULL DEFAULT now(),
  -- revoke: the grant of key under fence was deleted. Any other action is one on counters: key '' is all of them,
  -- fence the value reached, 0 for none.
  action         TEXT        NOT NULL CHECK (action ~ '^[a-z_]+$'),
  key            TEXT        NOT NULL,
  fence          BIGINT      NOT NULL CHECK (fence >= 0),
  operator       TEXT        NOT NULL CHECK (operator ~ '\S'),
  reason         TEXT        NOT NULL CHECK (reason ~ '\S'),
  details        JSONB       NOT NULL DEFAULT '{}',
  login_role     TEXT        NOT NULL DEFAULT session_user,
  client_address INET                 DEFAULT inet_client_addr()
);

CREATE OR REPLACE FUNCTION dlockctl_refuse_change() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE insufficient_privilege USING
    MESSAGE = format('%I is append-only: %s refused', TG_TABLE_NAME, TG_OP),
    TABLE = TG_TABLE_NAME, SCHEMA = TG_TABLE_SCHEMA;
END $$;

-- One statement trigger: a row trigger does not see TRUNCATE. ALWAYS: the owner and the replica role are refused too.
CREATE OR REPLACE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON dlockctl_syncguard_audit
  FOR EACH STATEMENT EXECUTE FUNCTION dlockctl_refuse_change();
ALTER TABLE dlockctl_syncguard_audit ENABLE ALWAYS TRIGGER append_only;
