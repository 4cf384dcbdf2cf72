-- Read after the locks are held. now() is when the transaction began: a lease
-- counted from it may be over when it is granted.
SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint;
