-- The operator log (K-7.7): who froze, thawed, fast-forwarded, drew a fence,
-- and why. Append-only and hash-chained, so that a row taken out or rewritten
-- by an owner shows (K-3.6).
-- Locks: none on existing objects.

CREATE TABLE operator_log (
    id                BIGINT      PRIMARY KEY,
    logged_at         TIMESTAMPTZ NOT NULL,
    action            TEXT        NOT NULL,
    operator          TEXT        NOT NULL,
    reason            TEXT        NOT NULL,
    -- The token the action drew or advanced to: evidence of K-7.2.
    token             BIGINT,
    details           JSONB       NOT NULL DEFAULT '{}',
    login_role        TEXT        NOT NULL,
    client_address    INET,
    system_identifier BIGINT      NOT NULL,
    timeline_id       INTEGER     NOT NULL,
    previous_hash     BYTEA       NOT NULL,
    hash              BYTEA       NOT NULL,
    CONSTRAINT operator_log_action_ck   CHECK (action ~ '\S'),
    CONSTRAINT operator_log_operator_ck CHECK (operator ~ '\S'),
    CONSTRAINT operator_log_reason_ck   CHECK (reason ~ '\S'),
    CONSTRAINT operator_log_token_ck    CHECK (token BETWEEN 1 AND 9007199254740992)
);

-- The hash a row must have: over every other column, in a text that no
-- setting of a session changes.
CREATE FUNCTION operator_log_hash(entry operator_log) RETURNS bytea LANGUAGE sql STABLE AS $$
  SELECT sha256(convert_to(jsonb_build_array(
           entry.id, extract(epoch FROM entry.logged_at)::text, entry.action, entry.operator, entry.reason,
           entry.token, entry.details, entry.login_role, host(entry.client_address), entry.system_identifier,
           entry.timeline_id, encode(entry.previous_hash, 'hex'))::text, 'UTF8'))
$$;

-- Writers give action, operator, reason, token and details; the rest is not
-- theirs to choose.
CREATE FUNCTION operator_log_chain() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  last operator_log%ROWTYPE;
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended('operator_log', 7202));
  SELECT * INTO last FROM operator_log ORDER BY id DESC LIMIT 1;
  NEW.id := coalesce(last.id, 0) + 1;
  NEW.previous_hash := coalesce(last.hash, sha256(''));
  NEW.logged_at := now();
  NEW.login_role := session_user;
  NEW.client_address := inet_client_addr();
  SELECT c.system_identifier, ('x' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8))::bit(32)::int
    INTO NEW.system_identifier, NEW.timeline_id FROM pg_control_system() c;
  NEW.hash := operator_log_hash(NEW);
  RETURN NEW;
END $$;

-- Not ALWAYS: a replicated row keeps the link it was given.
CREATE TRIGGER operator_log_chain BEFORE INSERT ON operator_log
  FOR EACH ROW EXECUTE FUNCTION operator_log_chain();
CREATE TRIGGER operator_log_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON operator_log
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
ALTER TABLE operator_log ENABLE ALWAYS TRIGGER operator_log_append_only;

DO $$
BEGIN
  EXECUTE format('ALTER FUNCTION operator_log_hash(operator_log) SET search_path = pg_catalog, %I, pg_temp', current_schema());
  EXECUTE format('ALTER FUNCTION operator_log_chain() SET search_path = pg_catalog, %I, pg_temp', current_schema());
END $$;
