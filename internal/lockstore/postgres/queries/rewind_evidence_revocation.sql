-- Who may write locks may write audit rows, with any token: a row counts when the
-- journal, which nobody may write, knows the grant.
SELECT coalesce(r.prev_token, 0), coalesce('audit row ' || r.id, ''), r.revoked_at, 0::bigint,
       coalesce('audit rows name tokens up to ' || nullif(u.highest, 0) || ' that no grant of the journal has: they do not count; if the journal was lost, give the number as observed', '')
  FROM (SELECT coalesce(max(prev_token), 0) AS highest FROM lock_revocation
         WHERE prev_token > coalesce((SELECT max(fencing_token) FROM lock_grant), 0)) u
  LEFT JOIN LATERAL (
    SELECT r.* FROM lock_revocation r
     WHERE r.prev_token <= :limit_token
       AND EXISTS (SELECT FROM lock_grant g WHERE g.fencing_token = r.prev_token AND g.lock_key = r.lock_key)
     ORDER BY r.prev_token DESC LIMIT 1) r ON true;
