SELECT 'granted before', grantee, table_name FROM information_schema.table_privileges
 WHERE table_schema = current_schema() AND grantee IN ('lockapp', 'dlock_operator', 'dlock_auditor');
