-- The keys whose advisory lock another transaction keeps; the others' are this
-- transaction's now. Nobody waits, so the order is no matter.
SELECT k FROM unnest(:keys::text[]) k WHERE NOT pg_try_advisory_xact_lock(hashtextextended(k, 7201));
