-- An operator raised the fence, which is recorded, and it was set back: the holder who was
-- fenced out could write again.
-- @paydb
INSERT INTO account_fence_raise (account_id, raised_from, raised_to, operator, reason) SELECT account, t3, f1, 'oncall@example', 'the worker hangs' FROM scene;
-- @lockdb
SELECT pg_temp.fence_drawn(f1, t3, account) FROM scene;
-- @finding
0, account, NULL, NULL
