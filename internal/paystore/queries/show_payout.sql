-- One statement, one snapshot: a payout and everything that was recorded of it.
SELECT p.payout_id::text, p.account_id::text, p.amount_minor, p.currency, p.state, p.claimed_by, p.claim_token,
       p.idempotency_key, p.attempt_count, p.created_at, p.updated_at,
       (SELECT coalesce(jsonb_agg(jsonb_build_object(
                 'token', c.claim_token, 'claimed_by', c.claimed_by, 'claimed_at', c.claimed_at)
               ORDER BY c.claim_token), '[]')
          FROM payout_claim c WHERE c.payout_id = p.payout_id),
       (SELECT coalesce(jsonb_agg(jsonb_build_object(
                 'submission_id', s.submission_id, 'payout_id', s.payout_id, 'idempotency_key', s.idempotency_key,
                 'presented_token', s.presented_token, 'outcome', s.outcome, 'rail_reference', s.rail_reference,
                 'submitted_at', s.submitted_at, 'resolved_at', s.resolved_at)
               ORDER BY s.submitted_at, s.presented_token, s.submission_id), '[]')
          FROM rail_submission s WHERE s.payout_id = p.payout_id),
       (SELECT coalesce(jsonb_agg(jsonb_build_object(
                 'entry_id', l.entry_id, 'payout_id', l.payout_id, 'account_id', l.account_id,
                 'direction', l.direction, 'amount_minor', l.amount_minor, 'fence', l.fence, 'created_at', l.created_at)
               ORDER BY l.created_at, l.direction DESC, l.entry_id), '[]')
          FROM ledger_entry l WHERE l.payout_id = p.payout_id),
       (SELECT coalesce(jsonb_agg(jsonb_build_object(
                 'resolution_id', r.resolution_id, 'source', r.source, 'verdict', r.verdict, 'evidence', r.evidence,
                 'operator', r.operator, 'reason', r.reason, 'recorded_at', r.recorded_at, 'login_role', r.login_role,
                 'client_address', coalesce(host(r.client_address), ''))
               ORDER BY r.resolution_id), '[]')
          FROM payout_resolution r WHERE r.payout_id = p.payout_id)
  FROM payout p
 WHERE p.payout_id = :payout_id;
