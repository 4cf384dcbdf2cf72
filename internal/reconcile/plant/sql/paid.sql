-- What the rail paid, as paydb knows it.
CREATE OR REPLACE TEMP VIEW paid AS
SELECT s.rail_reference AS reference, p.idempotency_key AS key, p.amount_minor, p.currency::text AS currency, 'PAID' AS status, s.resolved_at AS at
  FROM rail_submission s
  JOIN payout p USING (payout_id)
 WHERE s.outcome = 'ACKED'
 ORDER BY s.resolved_at;
