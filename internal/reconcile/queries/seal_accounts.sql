-- What each account opened with: as recorded, or as its balance and its legs imply.
WITH unrecorded AS (
  SELECT l.account_id, sum(CASE l.direction WHEN 'CREDIT' THEN l.amount_minor ELSE -l.amount_minor END) AS net
    FROM ledger_entry l
   WHERE NOT EXISTS (SELECT FROM opening_balance o WHERE o.account_id = l.account_id)
   GROUP BY l.account_id
)
SELECT a.account_id::text, a.currency::text,
       coalesce(o.amount_minor::numeric, a.balance_minor - coalesce(u.net, 0))::text, o.account_id IS NOT NULL
  FROM account a
  LEFT JOIN opening_balance o USING (account_id)
  LEFT JOIN unrecorded u USING (account_id);
