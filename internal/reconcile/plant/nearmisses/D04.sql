-- Since the sealed run the highest claim was given back: its row forgets it, and
-- payout_claim does not.
-- @paydb
UPDATE payout SET state = 'PENDING', claimed_by = NULL, claim_token = NULL
 WHERE state = 'CLAIMED' AND claim_token = (SELECT max(claim_token) FROM payout WHERE state = 'CLAIMED');
