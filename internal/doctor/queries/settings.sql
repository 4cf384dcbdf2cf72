-- $1: a setting. Every default that some login of this database can get, with
-- the statement that would change it.
SELECT split_part(o.option, '=', 2),
       CASE WHEN s.setrole = 0 AND s.setdatabase = 0 THEN 'every role'
            WHEN s.setrole = 0 THEN 'the database'
            ELSE 'role ' || r.rolname END,
       CASE WHEN s.setrole = 0 AND s.setdatabase = 0 THEN 'ALTER ROLE ALL'
            WHEN s.setrole = 0 THEN 'ALTER DATABASE ' || quote_ident(d.datname)
            ELSE 'ALTER ROLE ' || quote_ident(r.rolname)
                 || CASE WHEN s.setdatabase = 0 THEN '' ELSE ' IN DATABASE ' || quote_ident(d.datname) END END
  FROM pg_database d
  JOIN pg_db_role_setting s ON s.setdatabase IN (0, d.oid)
 CROSS JOIN LATERAL unnest(s.setconfig) AS o (option)
  LEFT JOIN pg_roles r ON r.oid = s.setrole
 WHERE d.datname = current_database() AND split_part(o.option, '=', 1) = $1::text
 UNION ALL
-- The server's own, where no default of this login hides it.
SELECT setting, 'the server', 'ALTER DATABASE ' || quote_ident(current_database())
  FROM pg_settings
 WHERE name = $1::text AND source IN ('default', 'configuration file', 'command line', 'environment variable')
 ORDER BY 2;
