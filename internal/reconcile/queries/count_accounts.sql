SELECT count(*)
  FROM account a
 WHERE (@accounts::uuid[] IS NULL OR a.account_id = ANY (@accounts))
   AND (@currency::text[] IS NULL OR a.currency = ANY (@currency))
