-- Posted, and then the payout's row went back to CLAIMED, a minute ago: without an
-- attempt and young, so that neither C01 nor C11 has a say.
-- @paydb
UPDATE payout SET state = 'CLAIMED' FROM scene WHERE payout_id = p3;
DELETE FROM rail_submission USING scene WHERE payout_id = p3;
SELECT pg_temp.touched(p3, '1 minute') FROM scene;
-- @finding
t3, account, p3, NULL
