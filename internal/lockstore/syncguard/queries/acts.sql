-- What of the two tables' own changes what a statement on them does, the worst first:
-- what it is, the statement that puts it out of action, whether it breaks exclusion
-- under the login that asks, and whether it is a matter of the tables' shape.
WITH two AS (
  SELECT c.oid, format('%I.%I', n.nspname, c.relname) AS name, c.relrowsecurity AS secured
    FROM unnest(ARRAY[:lock::regclass, :fence::regclass]) r (oid)
    JOIN pg_class c ON c.oid = r.oid
    JOIN pg_namespace n ON n.oid = c.relnamespace
), security AS (
  -- Policies that let every command pass, with none that restricts it, hide nothing.
  SELECT t.oid, t.name, row_security_active(t.oid) AS active,
         coalesce(bool_and(p.polpermissive), true) AND count(DISTINCT x.cmd) FILTER (WHERE w.passes AND p.polroles = '{0}') = 4 AS open_to_all,
         coalesce(bool_and(p.polpermissive OR NOT w.here), true) AND count(DISTINCT x.cmd) FILTER (WHERE w.passes AND w.here) = 4 AS open_here
    FROM two t
   CROSS JOIN unnest('{r,a,w,d}'::"char"[]) x (cmd)
    LEFT JOIN pg_policy p ON p.polrelid = t.oid AND p.polcmd IN ('*', x.cmd)
    LEFT JOIN LATERAL (
      SELECT p.polpermissive AND (p.polcmd = 'a' OR pg_get_expr(p.polqual, p.polrelid) = 'true')
               AND coalesce(pg_get_expr(p.polwithcheck, p.polrelid), CASE WHEN p.polcmd = 'a' THEN '' ELSE 'true' END) = 'true' AS passes,
             p.polroles = '{0}' OR EXISTS (SELECT FROM unnest(p.polroles) r WHERE r <> 0 AND pg_has_role(r, 'USAGE')) AS here) w ON true
   WHERE t.secured
   GROUP BY t.oid, t.name
), acts AS (
  SELECT t.name, format('rule %I rewrites every %s', r.rulename, CASE r.ev_type WHEN '2' THEN 'UPDATE' WHEN '3' THEN 'INSERT' ELSE 'DELETE' END) AS what,
         format('DROP RULE %I ON %s', r.rulename, t.name) AS fix, true AS breaks, true AS shape
    FROM two t
    JOIN pg_rewrite r ON r.ev_class = t.oid
   WHERE r.ev_type <> '1' AND r.ev_enabled IN ('O', 'A')
  UNION ALL
  SELECT s.name, 'row-level security hides rows from ' || CASE WHEN s.active AND NOT s.open_here THEN '' ELSE 'other logins than ' END || quote_ident(current_user),
         format('ALTER TABLE %s DISABLE ROW LEVEL SECURITY', s.name), s.active AND NOT s.open_here, false
    FROM security s
   WHERE NOT s.open_to_all
  UNION ALL
  SELECT t.name, format('the rows of %I.%I, which inherits from it, count as its own, and no index keeps a key from standing in both', n.nspname, c.relname),
         format('ALTER TABLE %I.%I NO INHERIT %s', n.nspname, c.relname, t.name), true, true
    FROM two t
    JOIN pg_inherits i ON i.inhparent = t.oid
    JOIN pg_class c ON c.oid = i.inhrelid
    JOIN pg_namespace n ON n.oid = c.relnamespace
   WHERE NOT c.relispartition -- a partition's rows are the table's own, under its key
  UNION ALL
  SELECT t.name, format('trigger %I runs %s %s every %s', g.tgname, g.tgfoid::regproc, CASE WHEN g.tgtype & 2 <> 0 THEN 'before' ELSE 'after' END,
                        concat_ws(', ', CASE WHEN g.tgtype & 4 <> 0 THEN 'INSERT' END, CASE WHEN g.tgtype & 16 <> 0 THEN 'UPDATE' END, CASE WHEN g.tgtype & 8 <> 0 THEN 'DELETE' END)),
         format('ALTER TABLE %s DISABLE TRIGGER %I', t.name, g.tgname), false, false
    FROM two t
    JOIN pg_trigger g ON g.tgrelid = t.oid
   WHERE NOT g.tgisinternal AND g.tgenabled IN ('O', 'A') AND g.tgtype & 28 <> 0
)
SELECT name, what, fix, breaks, shape FROM acts ORDER BY NOT breaks, name, what;
