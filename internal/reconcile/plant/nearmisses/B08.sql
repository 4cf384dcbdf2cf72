-- The fence was raised to the last token issued, drawn for it.
-- @paydb
UPDATE account SET fence = f2 FROM scene WHERE account_id = account;
INSERT INTO account_fence_raise (account_id, raised_from, raised_to, operator, reason) SELECT account, t3, f2, 'oncall@example', 'the worker hangs' FROM scene;
-- @lockdb
SELECT pg_temp.fence_drawn(f2, t3, account) FROM scene;
