-- The sealed legs, digested in buckets: as many as there are, and the sum of their
-- fingerprints, so that their order does not matter. A row's xmin has 32 bits; the
-- number above it is the highest that this snapshot allows.
WITH now AS (
  SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS xmax
), legs AS (
  SELECT l.*, l.xmin::text::bigint AS low, now.xmax AS high FROM ledger_entry l, now
), sealed AS (
  SELECT (hashtextextended(entry_id::text, 7311) & (@buckets::int - 1))::int AS bucket,
         hashtextextended(concat_ws('|', entry_id, payout_id, account_id, direction, amount_minor, fence, extract(epoch FROM created_at)), 7312) AS fingerprint
    FROM legs
   WHERE low + (high - low) / 4294967296 * 4294967296 < @xmax::bigint
     AND low + (high - low) / 4294967296 * 4294967296 <> ALL (@xip::bigint[])
)
SELECT bucket, count(*), sum(fingerprint::numeric)::text
  FROM sealed
 WHERE @bucket::int IS NULL OR bucket = @bucket::int
 GROUP BY bucket;
