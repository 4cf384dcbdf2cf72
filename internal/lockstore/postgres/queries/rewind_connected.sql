SELECT a.pid, coalesce(a.usename, ''), coalesce(a.application_name, ''), coalesce(host(a.client_addr), ''), coalesce(a.state, ''), a.xact_start, ''
  FROM pg_stat_activity a
 WHERE a.datname = current_database() AND a.backend_type = 'client backend' AND NOT a.pid = ANY(:own_pids)
 ORDER BY a.pid;
