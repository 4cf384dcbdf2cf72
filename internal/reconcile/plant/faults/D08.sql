-- The auditor may not read the raises of fences any more.
-- @paydb
REVOKE SELECT ON account_fence_raise FROM dlock_auditor;
-- @finding
0, NULL, NULL, 'account_fence_raise'
