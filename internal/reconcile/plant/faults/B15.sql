-- The rail took an attempt without a token. It is the account's first, so that no
-- later one stands before it, and the zero was claimed, so that C10 is content.
-- drops: rail_token_ck, payout_claim_token_ck
-- @paydb
ALTER TABLE rail_submission DROP CONSTRAINT IF EXISTS rail_token_ck;
ALTER TABLE payout_claim DROP CONSTRAINT IF EXISTS payout_claim_token_ck;
SELECT pg_temp.account(x1, currency, 5000, NULL) FROM scene;
SELECT pg_temp.posted(x2, x1, clearing, 100, f1, by3) FROM scene;
SELECT pg_temp.claimed(x2, 0, by3) FROM scene;
UPDATE rail_submission SET presented_token = 0 FROM scene WHERE payout_id = x2;
-- @lockdb
SELECT pg_temp.granted(f1, x1, by3, now() - interval '3 hours 4 s') FROM scene;
-- @finding
0, NULL, x2, NULL
