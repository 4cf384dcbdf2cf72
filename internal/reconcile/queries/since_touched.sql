-- The payouts that a run since a seal looks at: all that are open, whose time may have
-- run out, and those of which a row was written since.
WITH now AS (
  SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS xmax
), rows AS (
  SELECT payout_id, xmin::text::bigint AS low, state NOT IN ('POSTED', 'FAILED', 'ABANDONED') AS open FROM payout
  UNION ALL
  SELECT payout_id, xmin::text::bigint, false FROM ledger_entry
  UNION ALL
  SELECT payout_id, xmin::text::bigint, false FROM rail_submission
), known AS (
  SELECT payout_id, open, low + (now.xmax - low) / 4294967296 * 4294967296 AS xid FROM rows, now
)
SELECT DISTINCT payout_id::text
  FROM known
 WHERE open OR xid >= @xmax::bigint OR xid = ANY (@xip::bigint[])
 LIMIT @most::bigint;
