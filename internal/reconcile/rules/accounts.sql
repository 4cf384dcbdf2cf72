-- A01, A02, A04, A10, A14 by account: what an account says, against what its legs say
-- (K-8.1, INV-03). One aggregate of the legs; the sums are numeric and cannot overflow.
WITH legs AS (
  SELECT l.account_id,
         sum(l.amount_minor) FILTER (WHERE l.direction = 'CREDIT') AS credit,
         sum(l.amount_minor) FILTER (WHERE l.direction = 'DEBIT')  AS debit
    FROM ledger_entry l
   WHERE (@accounts::uuid[] IS NULL OR l.account_id = ANY (@accounts))
     -- The second look at first: by index, and so without what another payer's payout put there.
     AND (NOT @own::boolean OR l.payout_id = ANY (ARRAY(SELECT p.payout_id FROM payout p WHERE p.account_id = ANY (@accounts))))
   GROUP BY l.account_id
), odd AS MATERIALIZED (
  SELECT account_id, a.currency::text AS currency, a.fence, a.updated_at,
         -- Asked for the few: in the aggregate it would cost a tenth more.
         CASE WHEN o.account_id IS NOT NULL OR a.balance_minor < 0 THEN (
           SELECT max(own.fence) FROM payout p JOIN ledger_entry own USING (payout_id, account_id) WHERE p.account_id = a.account_id) END AS leg_fence,
         a.account_id IS NOT NULL             AS known,
         o.account_id IS NOT NULL             AS anchored,
         a.balance_minor::numeric             AS balance,
         coalesce(o.amount_minor, 0)::numeric AS opening,
         coalesce(l.credit, 0)                AS credit,
         coalesce(l.debit, 0)                 AS debit
    FROM ((SELECT * FROM account WHERE @accounts::uuid[] IS NULL OR account_id = ANY (@accounts)) a
            LEFT JOIN opening_balance o USING (account_id))
    FULL JOIN legs l USING (account_id)
   WHERE a.account_id IS NULL OR o.account_id IS NULL OR a.balance_minor < 0
      OR a.balance_minor <> o.amount_minor + coalesce(l.credit, 0) - coalesce(l.debit, 0)
      OR l.credit > 9223372036854775807 OR l.debit > 9223372036854775807
)
SELECT broken.class, odd.account_id::text, '', broken.subject, odd.currency, broken.amount::text, CASE WHEN isfinite(odd.updated_at) THEN odd.updated_at END,
       array_remove(ARRAY[nullif(odd.fence, 0), CASE WHEN odd.leg_fence <> odd.fence THEN odd.leg_fence END], NULL), false,
       broken.what,
       jsonb_build_object('balance_minor', balance::text, 'opening_minor', opening::text, 'credit_minor', credit::text,
                          'debit_minor', debit::text, 'fence', fence, 'leg_fence', leg_fence)
  FROM odd, LATERAL (VALUES
         ('A01', anchored AND balance <> opening + credit - debit, '', balance - opening - credit + debit,
          format('the balance is %s and should be %s: opening %s, credits %s, debits %s', balance, opening + credit - debit, opening, credit, debit)),
         ('A02', NOT anchored, '', balance - credit + debit,
          format('no opening balance is recorded: the balance %s and its legs imply one of %s', balance, balance - credit + debit)),
         ('A04', balance < 0, '', balance,
          format('the balance is %s', balance)),
         ('A10', credit > 9223372036854775807 OR debit > 9223372036854775807, 'sums', greatest(credit, debit),
          format('credits of %s and debits of %s: a sum is beyond 64 bits', credit, debit))
       ) AS broken (class, found, subject, amount, what)
 WHERE known AND broken.found
   AND (@currency::text[] IS NULL OR odd.currency = ANY (@currency))
UNION ALL
-- Of an account that does not exist the currency is not known: it is in every scope.
SELECT 'A14', l.account_id::text, l.payout_id::text, l.entry_id::text, '', coalesce(l.amount_minor::text, ''), CASE WHEN isfinite(l.created_at) THEN l.created_at END,
       array_remove(ARRAY[l.fence], NULL), false,
       format('the %s of %s is on account %s, which does not exist', l.direction, l.amount_minor, l.account_id), NULL
  FROM ledger_entry l
 WHERE l.account_id IN (SELECT odd.account_id FROM odd WHERE NOT odd.known)
UNION ALL
SELECT 'A14', o.account_id::text, '', 'opening_balance', '', o.amount_minor::text, CASE WHEN isfinite(o.as_of) THEN o.as_of END,
       '{}'::bigint[], false,
       format('account %s opened with %s, and does not exist', o.account_id, o.amount_minor), NULL
  FROM opening_balance o
 WHERE NOT EXISTS (SELECT FROM account a WHERE a.account_id = o.account_id)
   AND (@accounts::uuid[] IS NULL OR o.account_id = ANY (@accounts))
