-- A05–A15, A20 by payout: its legs, against what it says (K-4.7, K-4.10).
--
-- A payout that is as it must be has one DEBIT and one CREDIT, so that two joins find
-- all that are not: nothing is sorted, and nothing is summed but the suspects. A
-- second leg of one direction would pass them; ledger_direction_uidx says that there
-- is none, and where it does not, they are counted.
WITH index_stands AS (
  SELECT EXISTS (SELECT FROM pg_index i
                  WHERE i.indexrelid = to_regclass('ledger_direction_uidx') AND i.indisunique AND i.indisvalid
                    AND pg_get_indexdef(i.indexrelid, 0, true) LIKE '% (payout_id, direction)') AS yes
), suspects AS MATERIALIZED (
  SELECT payout_id
    FROM (SELECT payout_id, account_id, amount_minor, currency, state, claim_token, created_at FROM payout
           WHERE (@accounts::uuid[] IS NULL OR account_id = ANY (@accounts)) AND (@payouts::uuid[] IS NULL OR payout_id = ANY (@payouts))
             AND (@currency::text[] IS NULL OR currency = ANY (@currency))) p
    FULL JOIN (SELECT payout_id, account_id, amount_minor, fence, created_at FROM ledger_entry
                WHERE direction = 'DEBIT'
                  AND (@accounts::uuid[] IS NULL OR account_id = ANY (@accounts)) AND (@payouts::uuid[] IS NULL OR payout_id = ANY (@payouts))) d USING (payout_id)
    FULL JOIN (SELECT payout_id, account_id, amount_minor, fence, created_at, direction FROM ledger_entry
                WHERE direction IS DISTINCT FROM 'DEBIT'
                  AND (@accounts::uuid[] IS NULL OR account_id = ANY (@accounts)) AND (@payouts::uuid[] IS NULL OR payout_id = ANY (@payouts))) c USING (payout_id)
    LEFT JOIN clearing_account clearing ON clearing.account_id = c.account_id
   WHERE NOT CASE
           WHEN d.payout_id IS NULL AND c.payout_id IS NULL THEN p.state <> 'POSTED'
           ELSE coalesce(p.state = 'POSTED' AND d.amount_minor = p.amount_minor AND c.amount_minor = p.amount_minor AND p.amount_minor > 0
                         AND d.fence = p.claim_token AND c.fence = d.fence
                         AND c.direction = 'CREDIT' AND d.account_id = p.account_id AND clearing.currency = p.currency AND c.account_id <> d.account_id
                         AND d.created_at BETWEEN p.created_at AND now() + @skew::interval
                         AND c.created_at BETWEEN p.created_at AND now() + @skew::interval, false) END
  UNION
  SELECT payout_id FROM ledger_entry
   WHERE NOT (SELECT yes FROM index_stands) AND (@payouts::uuid[] IS NULL OR payout_id = ANY (@payouts))
   GROUP BY payout_id
  HAVING count(*) FILTER (WHERE direction = 'DEBIT') > 1 OR count(*) FILTER (WHERE direction = 'CREDIT') > 1
), legs AS MATERIALIZED (
  -- OFFSET 0: by index, suspect for suspect. Their number is anybody's guess, and the
  -- planner's would be to read all legs once more.
  SELECT l.*
    FROM suspects s
   CROSS JOIN LATERAL (
           SELECT l.*, p.payout_id IS NOT NULL AS known, p.created_at AS payout_created, a.currency::text AS currency,
                  coalesce(l.amount_minor <= 0 OR l.direction NOT IN ('DEBIT', 'CREDIT'), true) AS bad,
                  -- A leg on no account at all is A14's.
                  a.account_id IS NOT NULL
                    AND (l.direction = 'DEBIT' AND l.account_id <> p.account_id
                         OR l.direction = 'CREDIT' AND clearing.currency IS DISTINCT FROM p.currency) AS misplaced
             FROM ledger_entry l
             LEFT JOIN payout p ON p.payout_id = l.payout_id
             LEFT JOIN account a ON a.account_id = l.account_id
             LEFT JOIN clearing_account clearing ON clearing.account_id = l.account_id
            WHERE l.payout_id = s.payout_id OFFSET 0) l
), sums AS (
  SELECT payout_id, count(*) AS legs,
         count(*) FILTER (WHERE direction = 'DEBIT')                                AS debits,
         count(*) FILTER (WHERE direction = 'CREDIT')                               AS credits,
         coalesce(sum(amount_minor) FILTER (WHERE direction = 'DEBIT'), 0)          AS debit,
         coalesce(sum(amount_minor) FILTER (WHERE direction = 'CREDIT'), 0)         AS credit,
         sum(amount_minor) FILTER (WHERE misplaced)                                 AS astray,
         count(DISTINCT (account_id, direction)) > count(DISTINCT account_id)       AS both_sides,
         bool_or(bad)                                                               AS bad,
         coalesce(array_agg(DISTINCT fence) FILTER (WHERE fence IS NOT NULL), '{}') AS fences,
         min(created_at)                                                            AS first_at
    FROM legs
   GROUP BY payout_id
), payouts AS (
  SELECT p.*, coalesce(l.legs, 0) AS legs, coalesce(l.debits, 0) AS debits, coalesce(l.credits, 0) AS credits,
         coalesce(l.debit, 0) AS debit, coalesce(l.credit, 0) AS credit, l.astray,
         coalesce(l.both_sides, false) AS both_sides, coalesce(l.bad, false) AS bad, coalesce(l.fences, '{}') AS fences, l.first_at
    FROM suspects s
   CROSS JOIN LATERAL (
           SELECT p.payout_id, p.account_id, p.amount_minor, p.currency::text AS currency, p.state, p.claim_token, p.updated_at
             FROM payout p WHERE p.payout_id = s.payout_id OFFSET 0) p
    LEFT JOIN sums l ON l.payout_id = s.payout_id
)
SELECT broken.class, p.account_id::text, p.payout_id::text, '', p.currency, broken.amount::text, CASE WHEN isfinite(coalesce(p.first_at, p.updated_at)) THEN coalesce(p.first_at, p.updated_at) END,
       CASE WHEN p.legs > 0 THEN p.fences ELSE array_remove(ARRAY[p.claim_token], NULL) END, false, broken.what,
       jsonb_build_object('state', p.state, 'payout_amount_minor', p.amount_minor::text, 'claim_token', p.claim_token, 'legs', p.legs,
                          'debit_minor', p.debit::text, 'credit_minor', p.credit::text, 'fences', p.fences)
  FROM payouts p, LATERAL (VALUES
         ('A05', NOT p.bad AND (p.debits > 0) <> (p.credits > 0), p.debit + p.credit,
          format('only the %s of %s was written', CASE WHEN p.debits > 0 THEN 'DEBIT' ELSE 'CREDIT' END, p.debit + p.credit)),
         ('A06', NOT p.bad AND p.debits > 0 AND p.credits > 0 AND p.debit <> p.credit, p.debit - p.credit,
          format('debits of %s and credits of %s', p.debit, p.credit)),
         ('A07', NOT p.bad AND p.debits > 0 AND p.debit = p.credit AND p.debit <> p.amount_minor, p.debit - p.amount_minor,
          format('%s was posted for a payout of %s', p.debit, p.amount_minor)),
         ('A08', NOT p.both_sides AND (p.astray IS NOT NULL OR NOT p.bad AND p.legs > 2), coalesce(p.astray, 0),
          CASE WHEN p.astray IS NULL THEN format('%s legs, where one DEBIT and one CREDIT are right', p.legs)
               ELSE format('legs of %s are on accounts that the payout does not name', p.astray) END),
         ('A09', p.both_sides, least(p.debit, p.credit),
          'one account is debited and credited: nothing has moved'),
         ('A11', p.state = 'POSTED' AND p.legs = 0, p.amount_minor,
          format('POSTED, and no leg of %s was written', p.amount_minor)),
         ('A12', p.legs > 0 AND p.state NOT IN ('POSTED', 'FAILED', 'ABANDONED'), greatest(p.debit, p.credit),
          format('%s legs, and the payout is %s', p.legs, p.state)),
         ('A13', p.legs > 0 AND p.state IN ('FAILED', 'ABANDONED'), greatest(p.debit, p.credit),
          format('%s legs, and the payout is %s', p.legs, p.state)),
         ('A15', cardinality(p.fences) > 1, greatest(p.debit, p.credit),
          format('the legs carry the tokens %s', array_to_string(p.fences, ' and ')))
       ) AS broken (class, found, amount, what)
 WHERE broken.found
   AND (@currency::text[] IS NULL OR p.currency = ANY (@currency))
UNION ALL
SELECT broken.class, l.account_id::text, l.payout_id::text, l.entry_id::text, coalesce(l.currency, ''), coalesce(l.amount_minor::text, ''), CASE WHEN isfinite(l.created_at) THEN l.created_at END,
       array_remove(ARRAY[l.fence], NULL), false, broken.what, NULL
  FROM legs l, LATERAL (VALUES
         ('A10', l.bad,
          format('a leg says %s of %s', coalesce(l.direction, 'nothing'), coalesce(l.amount_minor::text, 'nothing'))),
         ('A14', NOT l.known,
          format('the %s of %s belongs to payout %s, which does not exist', l.direction, l.amount_minor, l.payout_id)),
         ('A20', l.known AND l.created_at < l.payout_created,
          format('the leg is of %s, before its payout was made at %s', l.created_at, l.payout_created)),
         ('A20', l.created_at > now() + @skew::interval,
          format('the leg is of %s, and it is %s', l.created_at, now()))
       ) AS broken (class, found, what)
 WHERE broken.found
   AND (@currency::text[] IS NULL OR l.currency IS NULL OR l.currency = ANY (@currency))
