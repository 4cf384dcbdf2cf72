-- One grant, two payouts of one payer: the first was refused for want of funds, and
-- its token went on to the next.
-- @paydb
SELECT pg_temp.payout(x1, account, 'FAILED', t3, by3, '2 days') FROM scene;
UPDATE payout SET created_at = at3, updated_at = at3 + interval '1 s' FROM scene WHERE payout_id = x1;
UPDATE payout_claim SET claimed_at = at3 + interval '1 s' FROM scene WHERE payout_id = x1;
