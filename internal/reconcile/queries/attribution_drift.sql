-- Which single postings would explain a drift, to the minor unit: a drift is what the
-- balance has more than it should. Legs are found by the payer's payouts; what a
-- clearing account drifts by is found by amount, in one scan for all of them.
WITH drifts AS (
  SELECT d.place, d.account_id, d.drift, c.account_id IS NOT NULL AS clearing
    FROM unnest(@drift_accounts::uuid[], @drifts::text[]::numeric[]) WITH ORDINALITY AS d (account_id, drift, place)
    JOIN account a USING (account_id)
    LEFT JOIN clearing_account c USING (account_id)
), legs AS (
  SELECT d.place, d.drift, p.payout_id, p.account_id AS payer, p.amount_minor AS of_payout, l.direction, l.amount_minor, l.fence AS token
    FROM drifts d
    JOIN payout p ON p.account_id = d.account_id
    JOIN ledger_entry l ON l.payout_id = p.payout_id AND l.account_id = d.account_id
   WHERE NOT d.clearing
   UNION ALL
  SELECT d.place, d.drift, l.payout_id, p.account_id, p.amount_minor, l.direction, l.amount_minor, l.fence
    FROM ledger_entry l
    JOIN drifts d ON d.account_id = l.account_id
    JOIN payout p USING (payout_id)
   WHERE d.clearing
     AND (SELECT bool_or(clearing) FROM drifts) -- or the legs would be read for nobody
     AND l.account_id = ANY (ARRAY(SELECT account_id FROM drifts WHERE clearing))
     AND l.amount_minor = ANY (ARRAY(SELECT abs(drift) FROM drifts WHERE clearing AND abs(drift) <= 9223372036854775807)::bigint[])
), candidates AS (
  -- What the leg took from the balance, or would have.
  SELECT l.place, l.payout_id, l.payer, l.token, how.how
    FROM (SELECT *, CASE direction WHEN 'DEBIT' THEN 1 ELSE -1 END AS side FROM legs WHERE direction IN ('DEBIT', 'CREDIT')) l
   CROSS JOIN LATERAL (VALUES
           ('lost', l.side * l.amount_minor::numeric = l.drift),
           ('twice', -l.side * l.amount_minor::numeric = l.drift),
           ('edited', l.amount_minor <> l.of_payout AND l.side * (l.amount_minor - l.of_payout::numeric) = l.drift)
         ) AS how (how, applies)
   WHERE how.applies AND l.token > 0
   UNION ALL
  SELECT d.place, p.payout_id, p.account_id, p.claim_token, 'unwritten'
    FROM drifts d
    JOIN payout p ON p.account_id = d.account_id
   WHERE NOT d.clearing AND p.claim_token > 0 AND -p.amount_minor::numeric = d.drift
     AND NOT EXISTS (SELECT FROM ledger_entry l WHERE l.payout_id = p.payout_id AND l.direction = 'DEBIT')
)
SELECT c.place, c.payout_id::text, c.payer::text, c.token, c.how
  FROM (SELECT *, row_number() OVER (PARTITION BY place ORDER BY token DESC, payout_id, how) AS n FROM candidates) c
 WHERE c.n <= 21
 UNION ALL
SELECT place, '', '', 0, 'clearing' FROM drifts WHERE clearing
 ORDER BY 1, 4 DESC, 2, 5;
