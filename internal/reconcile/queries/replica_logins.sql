-- Logins or databases for which triggers do not fire and foreign keys are not looked at.
SELECT coalesce(r.rolname, 'every login')::text
  FROM pg_db_role_setting s
  LEFT JOIN pg_roles r ON r.oid = s.setrole
 WHERE s.setdatabase IN (0, (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()))
   AND 'session_replication_role=replica' = ANY (s.setconfig)
 ORDER BY 1
