-- The library's own lock of a key, database-wide: the table is not part of it.
-- hashtext may differ between major versions, so it is computed here.
SELECT pg_advisory_xact_lock(hashtext(:key));
