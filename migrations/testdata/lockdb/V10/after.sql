SELECT 'marked' FROM deployment;
SELECT 'owner', relname FROM pg_class WHERE relname = 'deployment' AND relowner <> 'dlock_owner'::regrole;
DO $$ BEGIN
  INSERT INTO deployment (one, environment) VALUES (false, 'prod');
  RAISE 'a second row was accepted';
EXCEPTION WHEN check_violation THEN NULL;
END $$;
DO $$ BEGIN
  INSERT INTO deployment (environment) VALUES ('Prod EU');
  RAISE 'a name that is hard to type was accepted';
EXCEPTION WHEN check_violation THEN NULL;
END $$;
SELECT 'may write', grantee, privilege_type FROM information_schema.table_privileges
 WHERE table_name = 'deployment' AND privilege_type <> 'SELECT' AND grantee <> 'dlock_owner';
