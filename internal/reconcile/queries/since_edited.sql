-- Legs of before the seal that were written after it: edited. One that was in flight
-- when it was taken is not older than ten minutes before.
WITH now AS (
  SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS xmax
), legs AS (
  SELECT l.*, l.xmin::text::bigint + (now.xmax - l.xmin::text::bigint) / 4294967296 * 4294967296 AS xid FROM ledger_entry l, now
   WHERE l.created_at < @sealed_at::timestamptz - interval '10 minutes'
)
SELECT l.account_id::text, l.payout_id::text, l.entry_id::text, coalesce(a.currency::text, ''), l.amount_minor::text, greatest(l.created_at, '0001-01-02'), l.fence, l.direction
  FROM legs l
  LEFT JOIN account a USING (account_id)
 WHERE (l.xid >= @xmax::bigint OR l.xid = ANY (@xip::bigint[]))
   AND (@accounts::uuid[] IS NULL OR l.account_id = ANY (@accounts))
   AND (@currency::text[] IS NULL OR a.currency = ANY (@currency));
