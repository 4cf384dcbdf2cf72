-- What happened in paydb on @account and to @payouts, around the first thing that one
-- of @tokens did to one of the payouts, or did at all: @before events before it, and
-- @after from there.
WITH payouts AS (
  SELECT payout_id, amount_minor, currency, state FROM payout WHERE account_id = @account::uuid OR payout_id = ANY (@payouts::uuid[])
), legs AS (
  SELECT l.* FROM payouts p JOIN ledger_entry l USING (payout_id)
   UNION ALL
  -- Those whose payout is gone.
  SELECT l.* FROM ledger_entry l WHERE l.payout_id = ANY (@payouts::uuid[]) AND NOT EXISTS (SELECT FROM payout p WHERE p.payout_id = l.payout_id)
), attempts AS (
  -- Only these are indexed by payout; explain_fenced.sql has the others.
  SELECT s.*, p.amount_minor, p.currency FROM payouts p JOIN rail_submission s USING (payout_id) WHERE s.outcome IS DISTINCT FROM 'FENCED'
), events AS (
  SELECT c.claimed_at AS at, 1 AS rank, 'claimed' AS kind, c.claim_token AS token, c.claimed_by AS holder, c.payout_id, '' AS id,
         format('payout of %s %s, now %s, claimed by %s', p.amount_minor, p.currency, p.state, quote_literal(c.claimed_by)) AS what, 'payout_claim' AS source
    FROM payouts p JOIN payout_claim c USING (payout_id)
   UNION ALL
  SELECT submitted_at, 2, 'submitted', presented_token, '', payout_id, submission_id::text,
         format('%s %s sent to the rail under key %s', amount_minor, currency, quote_literal(idempotency_key)), 'rail_submission'
    FROM attempts
   UNION ALL
  SELECT resolved_at, 3, 'answered', presented_token, '', payout_id, submission_id::text,
         CASE outcome WHEN 'ACKED' THEN format('the rail paid, reference %s', coalesce(quote_literal(rail_reference), 'none'))
                      WHEN 'REJECTED' THEN 'the rail refused' ELSE 'the rail did not answer in time' END, 'rail_submission'
    FROM attempts WHERE outcome IS NOT NULL
   UNION ALL
  SELECT created_at, 4, 'leg', fence, '', payout_id, entry_id::text,
         format('%s of %s on account %s', direction, amount_minor, account_id), 'ledger_entry'
    FROM legs
   UNION ALL
  SELECT r.recorded_at, 5, 'resolved', 0, '', r.payout_id, '',
         format('%s, by %s (%s): %s', r.verdict, quote_literal(r.operator), r.source, r.reason), 'payout_resolution'
    FROM payouts p JOIN payout_resolution r USING (payout_id)
   UNION ALL
  SELECT raised_at, 6, 'fence', raised_to, '', NULL, 'raise',
         format('the account''s fence was raised from %s to %s by %s: %s', raised_from, raised_to, quote_literal(operator), reason), 'account_fence_raise'
    FROM account_fence_raise WHERE account_id = @account::uuid
   UNION ALL
  -- What a token left behind that left nothing else.
  SELECT updated_at, 6, 'fence', fence, '', NULL, 'fence', format('the account''s fence stands at %s, and its balance at %s', fence, balance_minor), 'account'
    FROM account WHERE account_id = @account::uuid AND fence > 0 AND NOT EXISTS (SELECT FROM legs WHERE legs.fence = account.fence)
   UNION ALL
  SELECT updated_at, 6, 'fence', highest_token, '', NULL, 'mark', format('the rail''s mark stands at %s', highest_token), 'rail_high_water'
    FROM rail_high_water h WHERE account_id = @account::uuid AND NOT EXISTS (SELECT FROM attempts t WHERE t.presented_token = h.highest_token)
), placed AS (
  SELECT *, row_number() OVER (ORDER BY CASE WHEN isfinite(at) THEN at END NULLS FIRST, rank, token, id) AS n,
         coalesce(token = ANY (@tokens::bigint[]), false) AS own, coalesce(payout_id = ANY (@payouts::uuid[]), false) AS named
    FROM events
), around AS (
  SELECT greatest(coalesce(min(n) FILTER (WHERE own AND named), min(n) FILTER (WHERE named), min(n) FILTER (WHERE own), max(n)) - @before::int, 1) AS first, count(*) AS all_of_them FROM placed
), shown AS (
  SELECT least(first, greatest(all_of_them - @before::int - @after::int + 1, 1)) AS first FROM around
)
SELECT CASE WHEN isfinite(p.at) THEN p.at END, p.kind, coalesce(p.token, 0), p.holder, coalesce(p.payout_id::text, ''), p.id, p.what, p.source, s.first - 1
  FROM placed p, shown s
 WHERE p.n BETWEEN s.first AND s.first + @before::int + @after::int - 1
 ORDER BY p.n;
