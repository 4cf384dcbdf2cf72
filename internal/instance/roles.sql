-- The group roles of dlockctl: cluster-wide, without login and without
-- password (K-9.5). Run as a superuser or as a role with CREATEROLE; run it
-- again at any time, from as many databases of one cluster at once as you like.
--
--   dlock_owner      owns every object; both migration engines SET ROLE to it
--   lockapp          lock-server: sessions, entries, append to the audit
--   payapp           what the two payment services share (reading)
--   payapp_resource  payment-resource: claims and postings
--   payapp_rail      rail-proxy: attempts and the high-water mark
--   dlock_operator   a person who revokes, and becomes dlock_owner to fast-forward
--   dlock_auditor    reads everything, writes nothing
DO $roles$
DECLARE
  wanted TEXT;
BEGIN
  FOREACH wanted IN ARRAY ARRAY['dlock_owner', 'lockapp', 'payapp', 'payapp_resource', 'payapp_rail', 'dlock_operator', 'dlock_auditor'] LOOP
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = wanted) THEN
      BEGIN
        -- An operator has the owner's rights only after SET ROLE, never by inheritance.
        EXECUTE format('CREATE ROLE %I NOLOGIN %s', wanted, CASE wanted WHEN 'dlock_operator' THEN 'NOINHERIT' ELSE 'INHERIT' END);
      EXCEPTION WHEN duplicate_object OR unique_violation THEN
        NULL;  -- another database of this cluster made it at this moment
      END;
    END IF;
  END LOOP;
END
$roles$;

DO $members$
DECLARE
  member RECORD;
BEGIN
  FOR member IN
    SELECT * FROM (VALUES ('payapp', 'payapp_resource'), ('payapp', 'payapp_rail'), ('dlock_owner', 'dlock_operator')) m (granted, grantee)
    UNION ALL
    -- A managed cloud's CREATEROLE user must be able to become the owner to migrate.
    SELECT 'dlock_owner', current_user WHERE NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user)
  LOOP
    IF NOT EXISTS (
      SELECT FROM pg_auth_members a
       WHERE a.roleid = (SELECT oid FROM pg_roles WHERE rolname = member.granted)
         AND a.member = (SELECT oid FROM pg_roles WHERE rolname = member.grantee)
         AND (current_setting('server_version_num')::int < 160000 OR coalesce((to_jsonb(a) ->> 'set_option')::boolean, true)))
    THEN
      BEGIN
        EXECUTE format('GRANT %I TO %I', member.granted, member.grantee)
          || CASE WHEN current_setting('server_version_num')::int >= 160000 AND member.grantee = current_user THEN ' WITH SET TRUE, INHERIT TRUE' ELSE '' END;
      EXCEPTION
        WHEN unique_violation OR internal_error THEN
          NULL;  -- granted by another database at this moment; the report reads what stands
        WHEN insufficient_privilege OR invalid_grant_operation THEN
          RAISE NOTICE 'may not grant % to %: %', member.granted, member.grantee, SQLERRM;
      END;
    END IF;
  END LOOP;
END
$members$;

DO $schema$
BEGIN
  IF NOT has_schema_privilege('dlock_owner', current_schema(), 'CREATE') THEN
    BEGIN
      EXECUTE format('GRANT USAGE, CREATE ON SCHEMA %I TO dlock_owner', current_schema());
    EXCEPTION WHEN insufficient_privilege THEN
      RAISE NOTICE 'may not grant CREATE on schema % to dlock_owner: %', current_schema(), SQLERRM;
    END;
  END IF;
  -- Only who owns the schema may grant it: dlock_owner, which migrates, may not.
  BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA %I TO lockapp, payapp, dlock_operator, dlock_auditor', current_schema());
  EXCEPTION WHEN insufficient_privilege THEN
    RAISE NOTICE 'may not grant USAGE on schema %: %', current_schema(), SQLERRM;
  END;
END
$schema$;
