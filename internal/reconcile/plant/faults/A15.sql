-- The debit under the claim's token, the credit under that of the holder before: the
-- intruder is the one that is not the claim.
-- @paydb
SELECT pg_temp.claimed(p3, t3 - 1, other_by) FROM scene;
UPDATE ledger_entry l SET fence = s.t3 - 1 FROM scene s WHERE l.payout_id = s.p3 AND l.direction = 'CREDIT';
-- @lockdb
SELECT pg_temp.granted(t3 - 1, account, other_by, at3 - interval '2 s') FROM scene;
-- @finding
t3 - 1, NULL, p3, NULL
