-- A payout of nothing, with legs of nothing. The payout's own amount is zero as well,
-- so that the legs agree with it.
-- drops: payout_amount_ck, ledger_amount_ck
-- @paydb
ALTER TABLE payout DROP CONSTRAINT IF EXISTS payout_amount_ck;
ALTER TABLE ledger_entry DROP CONSTRAINT IF EXISTS ledger_amount_ck;
SELECT pg_temp.posted(x1, account, clearing, 0, f1, by3) FROM scene;
-- @lockdb
SELECT pg_temp.granted(f1, account, by3, now() - interval '3 hours 4 s') FROM scene;
-- @finding
f1, NULL, x1, NULL
