-- A01, INV-03 (K-8.1): balance = opening + Σ CREDIT − Σ DEBIT, per account.
-- One row per account that is not as it must be: BREAK, or UNANCHORED when it has no
-- opening balance (K-4.8). The sums are numeric: they cannot overflow.
WITH legs AS (
  SELECT account_id,
         sum(amount_minor) FILTER (WHERE direction = 'CREDIT') AS credit,
         sum(amount_minor) FILTER (WHERE direction = 'DEBIT')  AS debit
    FROM ledger_entry
   GROUP BY account_id
), accounts AS (
  SELECT a.account_id, a.currency, a.fence, o.account_id IS NOT NULL AS anchored,
         a.balance_minor::numeric            AS balance,
         coalesce(o.amount_minor, 0)::numeric AS opening,
         coalesce(l.credit, 0)               AS credit,
         coalesce(l.debit, 0)                AS debit
    FROM account a
    LEFT JOIN opening_balance o USING (account_id)
    LEFT JOIN legs l USING (account_id)
)
SELECT account_id::text, currency::text, fence, anchored,
       balance::text, opening::text, credit::text, debit::text,
       (balance - (opening + credit - debit))::text AS drift
  FROM accounts
 WHERE NOT anchored OR balance <> opening + credit - debit
 ORDER BY account_id;
