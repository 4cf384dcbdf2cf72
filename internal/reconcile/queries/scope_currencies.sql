-- The currencies asked for that no account in scope holds.
SELECT c.currency
  FROM unnest(@currency::text[]) AS c (currency)
 WHERE NOT EXISTS (SELECT FROM account a
                    WHERE a.currency = c.currency AND (@accounts::uuid[] IS NULL OR a.account_id = ANY (@accounts)))
 ORDER BY 1
