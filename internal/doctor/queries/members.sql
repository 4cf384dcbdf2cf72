-- $1: the group roles. What each is a member of, and whether it inherits: since
-- 16 that is said with each membership, before by the member.
SELECT g.rolname, quote_ident(g.rolname), m.rolname,
       coalesce((to_jsonb(a) ->> 'inherit_option')::boolean, m.rolinherit),
       CASE WHEN current_setting('server_version_num')::int >= 160000 AND a.grantor <> 10
            THEN ' GRANTED BY ' || quote_ident(by.rolname) ELSE '' END
  FROM pg_auth_members a
  JOIN pg_roles g ON g.oid = a.roleid
  JOIN pg_roles m ON m.oid = a.member
  LEFT JOIN pg_roles by ON by.oid = a.grantor
 WHERE m.rolname = ANY($1::text[])
 ORDER BY 3, 1;
