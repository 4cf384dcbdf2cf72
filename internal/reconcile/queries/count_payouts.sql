SELECT count(*)
  FROM payout p
 WHERE (@accounts::uuid[] IS NULL OR p.account_id = ANY (@accounts))
   AND (@currency::text[] IS NULL OR p.currency = ANY (@currency))
