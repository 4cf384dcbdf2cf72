SELECT a.account_id::text, a.currency, a.balance_minor, a.fence, a.updated_at,
       EXISTS (SELECT FROM clearing_account c WHERE c.account_id = a.account_id),
       (SELECT o.amount_minor FROM opening_balance o WHERE o.account_id = a.account_id),
       (SELECT count(*) FROM payout p WHERE p.account_id = a.account_id AND p.state NOT IN ('POSTED', 'FAILED', 'ABANDONED'))
  FROM account a
 WHERE (:account_id::uuid IS NULL OR a.account_id = :account_id::uuid)
   AND (:currency::text IS NULL OR a.currency = :currency::text)
   AND (NOT :clearing::boolean OR EXISTS (SELECT FROM clearing_account c WHERE c.account_id = a.account_id))
   AND (:after::uuid IS NULL OR a.account_id > :after::uuid)
 ORDER BY a.account_id
 LIMIT :row_limit;
