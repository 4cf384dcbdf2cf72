-- lock_key.sql for many: whoever releases and acquires in one transaction takes all
-- its keys in one order, each before its row, as an acquire by anybody else does
-- (K-2.4). The keys come sorted.
SELECT pg_advisory_xact_lock(hashtextextended(k, 7201)) FROM unnest(:keys::text[]) k;
