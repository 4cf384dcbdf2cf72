-- Everything that paydb knows of one token. Nothing is indexed by token: each table
-- is read once, and at most @most rows of each are told, the last ones.
WITH deeds AS (
  (SELECT c.claimed_at AS at, 1 AS rank, 'claimed' AS kind, c.claimed_by AS holder, c.payout_id,
          format('payout %s of %s %s from account %s, now %s, by %s', p.payout_id, p.amount_minor, p.currency, p.account_id, p.state, quote_literal(c.claimed_by)) AS what, 'payout_claim' AS source
     FROM payout_claim c JOIN payout p USING (payout_id) WHERE c.claim_token = @token::bigint ORDER BY c.claimed_at DESC LIMIT @most::int)
   UNION ALL
  -- A claim that went round the record of claims.
  (SELECT p.updated_at, 1, 'claimed', coalesce(p.claimed_by, ''), p.payout_id,
          format('payout %s of %s %s from account %s, now %s, is claimed under it by %s, and no claim is recorded', p.payout_id, p.amount_minor, p.currency, p.account_id, p.state, quote_nullable(p.claimed_by)), 'payout'
     FROM payout p
    WHERE p.claim_token = @token::bigint AND NOT EXISTS (SELECT FROM payout_claim c WHERE c.payout_id = p.payout_id AND c.claim_token = p.claim_token)
    ORDER BY p.updated_at DESC LIMIT @most::int)
   UNION ALL
  (SELECT submitted_at, 2, CASE outcome WHEN 'FENCED' THEN 'fenced_out' ELSE 'submitted' END, '', payout_id,
          CASE outcome WHEN 'FENCED' THEN format('payout %s was refused at the rail: the token is below the mark; nothing was forwarded', payout_id)
                       ELSE format('payout %s was sent to the rail under key %s', payout_id, quote_literal(idempotency_key)) END, 'rail_submission'
     FROM rail_submission WHERE presented_token = @token::bigint ORDER BY submitted_at DESC LIMIT @most::int)
   UNION ALL
  (SELECT resolved_at, 3, 'answered', '', payout_id,
          CASE outcome WHEN 'ACKED' THEN format('the rail paid payout %s, reference %s', payout_id, coalesce(quote_literal(rail_reference), 'none'))
                       WHEN 'REJECTED' THEN format('the rail refused payout %s', payout_id) ELSE format('the rail did not answer in time about payout %s', payout_id) END, 'rail_submission'
     FROM rail_submission WHERE presented_token = @token::bigint AND outcome <> 'FENCED' ORDER BY resolved_at DESC LIMIT @most::int)
   UNION ALL
  (SELECT created_at, 4, 'leg', '', payout_id, format('%s of %s on account %s, for payout %s', direction, amount_minor, account_id, payout_id), 'ledger_entry'
     FROM ledger_entry WHERE fence = @token::bigint ORDER BY created_at DESC LIMIT @most::int)
   UNION ALL
  (SELECT raised_at, 5, 'fence', '', NULL, format('the fence of account %s was raised from %s to it by %s: %s', account_id, raised_from, quote_literal(operator), reason), 'account_fence_raise'
     FROM account_fence_raise WHERE raised_to = @token::bigint ORDER BY raised_at DESC LIMIT @most::int)
   UNION ALL
  (SELECT updated_at, 6, 'fence', '', NULL, format('the fence of account %s stands at it, changed last then', account_id), 'account'
     FROM account WHERE fence = @token::bigint ORDER BY updated_at DESC LIMIT @most::int)
   UNION ALL
  (SELECT updated_at, 6, 'fence', '', NULL, format('the rail''s mark of account %s stands at it', account_id), 'rail_high_water'
     FROM rail_high_water WHERE highest_token = @token::bigint ORDER BY updated_at DESC LIMIT @most::int)
   UNION ALL
  SELECT raised_at, 6, 'fence', '', NULL, format('the floor of %s stands at it, raised by %s: %s', CASE point WHEN 'rail' THEN 'the rail' ELSE 'all accounts' END, quote_literal(raised_by), reason), 'fence_floor'
    FROM fence_floor WHERE floor_token = @token::bigint
)
SELECT CASE WHEN isfinite(at) THEN at END AS at, kind, @token::bigint, holder, coalesce(payout_id::text, ''), '', what, source
  FROM deeds
 ORDER BY 1 NULLS FIRST, rank, what;
