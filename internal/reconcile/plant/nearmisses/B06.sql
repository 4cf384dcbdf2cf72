-- Older than the journal, whose first partitions were pruned.
-- @paydb
SELECT pg_temp.claimed(p1, n + 1, other_by) FROM scene;
