-- The audit of force-revokes, as specified. V5 makes it append-only.
-- Locks: none on existing objects.

CREATE TABLE lock_revocation (
    id         BIGSERIAL   PRIMARY KEY,
    lock_key   TEXT        NOT NULL,
    prev_owner TEXT        NOT NULL,
    prev_token BIGINT      NOT NULL,
    operator   TEXT        NOT NULL,
    reason     TEXT        NOT NULL,
    revoked_at TIMESTAMPTZ NOT NULL DEFAULT now()
);
