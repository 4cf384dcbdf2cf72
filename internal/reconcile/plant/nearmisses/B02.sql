-- An operator raised the fence to one drawn for it, and that is recorded (K-3.2).
-- @paydb
UPDATE account SET fence = f1 FROM scene WHERE account_id = account;
INSERT INTO account_fence_raise (account_id, raised_from, raised_to, operator, reason) SELECT account, t3, f1, 'oncall@example', 'the worker hangs' FROM scene;
-- @lockdb
SELECT pg_temp.fence_drawn(f1, t3, account) FROM scene;
