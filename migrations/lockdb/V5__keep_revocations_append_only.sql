-- The audit cannot be changed (K-3.3), and keeps who was really logged in
-- beside who said to be the operator.
-- Locks: ACCESS EXCLUSIVE on lock_revocation, for as long as its index takes.

-- Column first, default second: rows that stand were written by nobody known,
-- and stay NULL.
ALTER TABLE lock_revocation
  ADD COLUMN login_role     TEXT,
  ADD COLUMN client_address INET;
ALTER TABLE lock_revocation
  ALTER COLUMN login_role     SET DEFAULT session_user,
  ALTER COLUMN client_address SET DEFAULT inet_client_addr();

-- NOT VALID: rows from before are evidence, not to be refused now.
ALTER TABLE lock_revocation
  ADD CONSTRAINT lock_revocation_operator_ck CHECK (operator ~ '\S') NOT VALID,
  ADD CONSTRAINT lock_revocation_reason_ck   CHECK (reason ~ '\S') NOT VALID,
  ADD CONSTRAINT lock_revocation_token_ck    CHECK (prev_token BETWEEN 1 AND 9007199254740992) NOT VALID;

-- The journal (V7) asks at each delete whether an audit row explains it.
CREATE INDEX lock_revocation_token_idx ON lock_revocation (prev_token);

CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE insufficient_privilege USING
    MESSAGE = format('%I is append-only: %s refused', TG_TABLE_NAME, TG_OP),
    TABLE = TG_TABLE_NAME, SCHEMA = TG_TABLE_SCHEMA;
END $$;

-- One statement trigger: a row trigger does not see TRUNCATE. ALWAYS: the
-- owner and the replica role are refused too.
CREATE TRIGGER lock_revocation_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON lock_revocation
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
ALTER TABLE lock_revocation ENABLE ALWAYS TRIGGER lock_revocation_append_only;

DO $$
BEGIN
  EXECUTE format('ALTER FUNCTION refuse_change() SET search_path = pg_catalog, %I, pg_temp', current_schema());
END $$;
