-- The fence was raised, and the raise recorded, to a number that was never issued:
-- nobody can post on the account any more.
-- @paydb
UPDATE account SET fence = forged FROM scene WHERE account_id = account;
INSERT INTO account_fence_raise (account_id, raised_from, raised_to, operator, reason) SELECT account, t3, forged, 'oncall@example', 'the worker hangs' FROM scene;
-- @finding
0, account, NULL, NULL
