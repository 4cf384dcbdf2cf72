-- Since the sealed run a FAILED payout, refused before the rail, became ABANDONED. It
-- is one of the world's own: the scene has none.
-- @paydb
CREATE TEMP TABLE changed ON COMMIT DROP AS
SELECT row_number() OVER (ORDER BY payout_id) - 1 AS n, payout_id, claim_token
  FROM payout p
 WHERE state = 'FAILED' AND claim_token IS NOT NULL AND NOT EXISTS (SELECT FROM rail_submission r WHERE r.payout_id = p.payout_id);
UPDATE scene s SET p1 = c.payout_id, t1 = c.claim_token FROM changed c WHERE c.n = s.n % (SELECT count(*) FROM changed);
UPDATE payout p SET state = 'ABANDONED' FROM scene s WHERE p.payout_id = s.p1;
-- @finding
t1, NULL, p1, NULL
