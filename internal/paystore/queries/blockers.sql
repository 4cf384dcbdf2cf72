-- Who keeps the rows of a payout and its account, or of an account, from others:
-- an open transaction that changed them or locked them alone.
SELECT DISTINCT l.pid
  FROM pg_locks l
 WHERE l.granted AND l.pid <> pg_backend_pid() AND l.locktype = 'transactionid'
   AND l.transactionid IN (
         SELECT p.xmax FROM payout p WHERE p.payout_id = :id::uuid AND p.xmax <> '0'::xid
         UNION ALL
         SELECT a.xmax FROM account a
          WHERE a.account_id IN (:id::uuid, (SELECT p.account_id FROM payout p WHERE p.payout_id = :id::uuid)) AND a.xmax <> '0'::xid)
 ORDER BY 1;
