-- An operator raised the fence before the last posting, which is above the raise.
-- @paydb
INSERT INTO account_fence_raise (account_id, raised_from, raised_to, operator, reason, raised_at)
SELECT account, t2, t3 - 1, 'oncall@example', 'the worker hangs', at3 - interval '1 s' FROM scene;
-- @lockdb
SELECT pg_temp.fence_drawn(t3 - 1, t2, account) FROM scene;
