-- A leg belongs to the scope by its own account.
SELECT count(*)
  FROM ledger_entry l
 WHERE (@accounts::uuid[] IS NULL OR l.account_id = ANY (@accounts))
   AND (@currency::text[] IS NULL OR l.account_id IN (SELECT a.account_id FROM account a WHERE a.currency = ANY (@currency)))
