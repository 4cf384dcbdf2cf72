-- What binds an outside mark to this deployment (K-7.6): the mark is a file that
-- no restore of lockdb rewinds, and its name is this id, which every backup and
-- every dump of lockdb has. `kept` says that there is one, so that who is not
-- told where it is grants nothing, instead of granting above it.
-- Locks: none on existing objects.

CREATE TABLE outside_mark (
    one           BOOLEAN     PRIMARY KEY DEFAULT true,
    deployment_id UUID        NOT NULL DEFAULT gen_random_uuid(),
    kept          BOOLEAN     NOT NULL DEFAULT false,
    kept_since    TIMESTAMPTZ,
    CONSTRAINT outside_mark_one_ck  CHECK (one),
    CONSTRAINT outside_mark_kept_ck CHECK (kept = (kept_since IS NOT NULL))
);
INSERT INTO outside_mark DEFAULT VALUES;

-- Who has made the mark says so, once; to go without one again is the owner's to
-- say.
CREATE FUNCTION outside_mark_keep() RETURNS void LANGUAGE sql SECURITY DEFINER AS $$
  UPDATE outside_mark SET kept = true, kept_since = now() WHERE NOT kept
$$;
REVOKE EXECUTE ON FUNCTION outside_mark_keep() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION outside_mark_keep() TO lockapp, dlock_operator;
GRANT SELECT ON outside_mark TO lockapp, dlock_operator, dlock_auditor;

DO $$
BEGIN
  EXECUTE format('ALTER FUNCTION outside_mark_keep() SET search_path = pg_catalog, %I, pg_temp', current_schema());
END $$;
