-- Why an unknown rail outcome was settled as it was (K-5.3): evidence, source and
-- person of each resolution. The gate of a restored paydb (V16, K-7.9) asks for it.
-- Locks: SHARE ROW EXCLUSIVE on payout while the foreign key is made.

-- Which instance and which timeline of it this is. The WAL file's name knows the
-- timeline at once after a promotion; pg_control_checkpoint() lags.
CREATE FUNCTION instance_system_identifier() RETURNS BIGINT LANGUAGE sql STABLE AS
  $$SELECT c.system_identifier FROM pg_control_system() c$$;
CREATE FUNCTION instance_timeline() RETURNS INTEGER LANGUAGE sql VOLATILE AS
  $$SELECT ('x' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8))::bit(32)::int$$;

CREATE TABLE payout_resolution (
    resolution_id     BIGINT      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    payout_id         UUID        NOT NULL REFERENCES payout (payout_id),
    source            TEXT        NOT NULL,
    verdict           TEXT        NOT NULL,
    evidence          JSONB       NOT NULL,
    operator          TEXT        NOT NULL,
    reason            TEXT        NOT NULL,
    recorded_at       TIMESTAMPTZ NOT NULL DEFAULT now(),
    login_role        TEXT        NOT NULL DEFAULT session_user,
    client_address    INET                 DEFAULT inet_client_addr(),
    -- A resolution restored from a backup was made in another life of this
    -- database and proves nothing about this one.
    system_identifier BIGINT      NOT NULL DEFAULT instance_system_identifier(),
    timeline_id       INTEGER     NOT NULL DEFAULT instance_timeline(),
    CONSTRAINT payout_resolution_source_ck   CHECK (source IN ('operator', 'rail')),
    -- PAID, REJECTED: the rail did, or refused to. NOT_FOUND: the rail has no
    -- record of the key. UNDETERMINED: it will never be known (ABANDONED).
    CONSTRAINT payout_resolution_verdict_ck  CHECK (verdict IN ('PAID', 'REJECTED', 'NOT_FOUND', 'UNDETERMINED')),
    CONSTRAINT payout_resolution_evidence_ck CHECK (jsonb_typeof(evidence) = 'object' AND evidence <> '{}'),
    CONSTRAINT payout_resolution_operator_ck CHECK (operator ~ '\S'),
    CONSTRAINT payout_resolution_reason_ck   CHECK (reason ~ '\S')
);

CREATE INDEX payout_resolution_payout_idx ON payout_resolution (payout_id);

CREATE TRIGGER payout_resolution_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON payout_resolution
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
ALTER TABLE payout_resolution ENABLE ALWAYS TRIGGER payout_resolution_append_only;

DO $$
BEGIN
  EXECUTE format('ALTER FUNCTION instance_system_identifier() SET search_path = pg_catalog, %I, pg_temp', current_schema());
  EXECUTE format('ALTER FUNCTION instance_timeline() SET search_path = pg_catalog, %I, pg_temp', current_schema());
END $$;
