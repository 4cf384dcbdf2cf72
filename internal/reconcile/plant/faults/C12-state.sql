-- A state that is not in the picture. Nothing was posted, and nothing was sent.
-- drops: payout_state_ck
-- @paydb
ALTER TABLE payout DROP CONSTRAINT IF EXISTS payout_state_ck;
SELECT pg_temp.payout(x1, account, 'CANCELLED', f1, by3, '1 minute') FROM scene;
-- @lockdb
SELECT pg_temp.granted(f1, account, by3, now() - interval '64 s') FROM scene;
-- @finding
f1, account, x1, NULL
