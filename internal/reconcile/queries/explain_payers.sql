-- Whose account a finding is told on: the payer's, whose lock guards it. A clearing
-- account takes part in every payout of its currency, and is told of by none.
SELECT w.place, a.account_id::text, a.currency::text
  FROM unnest(@accounts::uuid[], @payouts::uuid[]) WITH ORDINALITY AS w (account_id, payout_id, place)
  LEFT JOIN payout p ON p.payout_id = w.payout_id
  JOIN account a ON a.account_id = coalesce(p.account_id, w.account_id)
 WHERE NOT EXISTS (SELECT FROM clearing_account c WHERE c.account_id = a.account_id)
 ORDER BY w.place;
