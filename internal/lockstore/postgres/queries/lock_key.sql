-- With the key's advisory lock nobody acquires the key until this commits, so
-- that F is below every later grant (K-3.2). 7201 as in lock_entry_order.
SELECT pg_advisory_xact_lock(hashtextextended(:key, 7201));
