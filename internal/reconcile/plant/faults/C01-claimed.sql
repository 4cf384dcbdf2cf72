-- The rail paid half an hour ago, and the payout was set back to where it had not been sent.
-- @paydb
SELECT pg_temp.unpost(p3) FROM scene;
UPDATE payout SET state = 'CLAIMED' FROM scene WHERE payout_id = p3;
SELECT pg_temp.touched(p3, '30 minutes') FROM scene;
-- @finding
t3, account, p3, NULL
