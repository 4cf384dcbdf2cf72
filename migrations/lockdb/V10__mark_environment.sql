-- Which environment this database belongs to, such as prod-eu: compared with
-- the profile before any write, since a profile of the right name may hold the
-- address of the wrong database. Written once, by the owner; no row means that
-- nothing is compared.
-- Locks: none on existing objects.

CREATE TABLE deployment (
    one         BOOLEAN     PRIMARY KEY DEFAULT true,
    environment TEXT        NOT NULL,
    marked_at   TIMESTAMPTZ NOT NULL DEFAULT now(),
    marked_by   TEXT        NOT NULL DEFAULT session_user,
    CONSTRAINT deployment_one_ck         CHECK (one),
    CONSTRAINT deployment_environment_ck CHECK (environment ~ '^[a-z0-9][a-z0-9._-]{0,62}$')
);

GRANT SELECT ON deployment TO lockapp, dlock_operator, dlock_auditor;
