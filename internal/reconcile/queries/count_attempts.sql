SELECT count(*)
  FROM rail_submission c
 WHERE (@accounts::uuid[] IS NULL AND @currency::text[] IS NULL)
    OR c.payout_id IN (SELECT p.payout_id FROM payout p
                        WHERE (@accounts::uuid[] IS NULL OR p.account_id = ANY (@accounts))
                          AND (@currency::text[] IS NULL OR p.currency = ANY (@currency)))
