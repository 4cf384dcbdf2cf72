-- What tells one lockdb from another: its server's process and database, and what it
-- belongs to. A copy keeps the last three; one that was migrated anew has them anew, but
-- for paydb.
SELECT c.system_identifier, pg_postmaster_start_time(), d.oid, m.deployment_id::text,
       coalesce(p.system_identifier, 0), coalesce((SELECT environment FROM deployment), '')
  FROM pg_control_system() c
  JOIN pg_database d ON d.datname = current_database()
 CROSS JOIN outside_mark m
  LEFT JOIN peer_instance p ON true;
