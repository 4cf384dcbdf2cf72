-- Another role lost a right that the auditor does not need.
-- @paydb
REVOKE SELECT ON rail_submission FROM payapp;
