-- One row with an id of its own; no mark is kept yet (K-7.6).
SELECT 'rows' WHERE (SELECT count(*) FROM outside_mark WHERE NOT kept AND deployment_id IS NOT NULL) <> 1;
SELECT 'owner', relname FROM pg_class WHERE relname = 'outside_mark' AND relowner <> 'dlock_owner'::regrole;
SELECT 'may write', grantee, privilege_type FROM information_schema.table_privileges
 WHERE table_name = 'outside_mark' AND privilege_type <> 'SELECT' AND grantee <> 'dlock_owner';
SELECT 'may not read', r.role FROM (VALUES ('lockapp'), ('dlock_operator'), ('dlock_auditor')) r (role) WHERE NOT has_table_privilege(r.role, 'outside_mark', 'SELECT');
SELECT 'public may keep' FROM pg_proc p, aclexplode(p.proacl) a WHERE p.proname = 'outside_mark_keep' AND a.grantee = 0;
DO $$ BEGIN
  INSERT INTO outside_mark (one) VALUES (false);
  RAISE 'a second row was accepted';
EXCEPTION WHEN check_violation THEN NULL;
END $$;
-- Who grants says once that a mark is kept, and may not take it back.
DO $$
DECLARE
  since TIMESTAMPTZ;
BEGIN
  SET LOCAL ROLE lockapp;
  PERFORM outside_mark_keep();
  SELECT kept_since INTO since FROM outside_mark WHERE kept;
  PERFORM outside_mark_keep();
  IF since IS NULL OR since <> (SELECT kept_since FROM outside_mark) THEN
    RAISE 'kept since %', since;
  END IF;
  UPDATE outside_mark SET kept = false, kept_since = NULL;
  RAISE 'lockapp took the mark back';
EXCEPTION WHEN insufficient_privilege THEN NULL;
END $$;
