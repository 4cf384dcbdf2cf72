-- The gate was opened on another timeline: lockdb was restored or promoted since.
-- @lockdb
UPDATE lock_gate SET timeline_id = timeline_id + 1;
-- @finding
0, NULL, NULL, 'lock_gate'
