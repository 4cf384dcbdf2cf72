-- The identity of the other database's instance (K-6.1), recorded by
-- `dlockctl migrate up`, so that a service with one DSN can tell that locks and
-- money do not stand on one instance.
-- Locks: none on existing objects.

CREATE TABLE peer_instance (
    one               BOOLEAN     PRIMARY KEY DEFAULT true,
    system_identifier BIGINT      NOT NULL,
    noted_at          TIMESTAMPTZ NOT NULL DEFAULT now(),
    CONSTRAINT peer_instance_one_ck CHECK (one)
);
