-- $1: group roles that exclude each other, in pairs of $1[i] and $2[i]. Each
-- login that is both, and the memberships of its own that make it the second.
SELECT r.rolname, a.rolname, b.rolname,
       coalesce((SELECT string_agg('REVOKE ' || quote_ident(g.rolname) || ' FROM ' || quote_ident(r.rolname), E';\n' ORDER BY 1)
                   FROM pg_auth_members m JOIN pg_roles g ON g.oid = m.roleid
                  WHERE m.member = r.oid AND pg_has_role(g.oid, b.oid, 'MEMBER')), '')
  FROM unnest($1::text[], $2::text[]) AS pair (one, other)
  JOIN pg_roles a ON a.rolname = pair.one
  JOIN pg_roles b ON b.rolname = pair.other
  JOIN pg_roles r ON r.rolcanlogin AND NOT r.rolsuper
                 AND pg_has_role(r.oid, a.oid, 'MEMBER') AND pg_has_role(r.oid, b.oid, 'MEMBER')
 ORDER BY 1, 2, 3;
