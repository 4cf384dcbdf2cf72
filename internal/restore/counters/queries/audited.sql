-- Of every key in the audit: the highest fence that was revoked, and the raise
-- recorded last with what it was raised for and where that was.
SELECT 'fence:' || key, coalesce(v.fence, 0), coalesce(r.fence, 0), coalesce((r.details->>'observed')::bigint, 0),
       coalesce((r.details->>'system_identifier')::bigint, 0), coalesce((r.details->>'timeline')::int, 0)
  FROM (SELECT key, max(fence) AS fence FROM dlockctl_syncguard_audit WHERE action = 'revoke' GROUP BY key) v
  FULL JOIN (SELECT DISTINCT ON (key) key, fence, details FROM dlockctl_syncguard_audit
              WHERE action = 'raise_counter' ORDER BY key, id DESC) r USING (key);
