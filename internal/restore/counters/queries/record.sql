-- A record for each counter that was raised, and one for the run (K-7.7).
INSERT INTO dlockctl_syncguard_audit (action, key, fence, operator, reason, details)
SELECT n.action, n.key, n.fence, :operator, :reason, n.details
  FROM unnest(:actions::text[], :keys::text[], :fences::bigint[], :details::jsonb[]) AS n (action, key, fence, details);
