-- The gate was opened on another instance: paydb was restored elsewhere.
-- @paydb
UPDATE pay_gate SET system_identifier = system_identifier + 1;
-- @finding
0, NULL, NULL, 'pay_gate'
