-- Each login of lockapp, with the default it gets: the one for the role before
-- the one for the database before the server's.
SELECT r.rolname, quote_ident(r.rolname), coalesce(
         (SELECT split_part(o.option, '=', 2)
            FROM pg_db_role_setting s CROSS JOIN LATERAL unnest(s.setconfig) AS o (option)
           WHERE s.setrole IN (0, r.oid) AND s.setdatabase IN (0, d.oid)
             AND split_part(o.option, '=', 1) = 'idle_in_transaction_session_timeout'
           ORDER BY s.setrole = r.oid DESC, s.setdatabase = d.oid DESC LIMIT 1),
         (SELECT setting FROM pg_settings
           WHERE name = 'idle_in_transaction_session_timeout' AND source IN ('default', 'configuration file', 'command line')),
         '0')
  FROM pg_roles r, pg_database d, pg_roles app
 WHERE d.datname = current_database() AND app.rolname = 'lockapp'
   AND r.rolcanlogin AND NOT r.rolsuper AND pg_has_role(r.oid, app.oid, 'MEMBER')
 ORDER BY 1;
