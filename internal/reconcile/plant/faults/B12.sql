-- Revoked, and it posted 40 s later.
-- @paydb
UPDATE ledger_entry l SET created_at = s.at3 + interval '60 s' FROM scene s WHERE l.payout_id = s.p3;
UPDATE payout SET updated_at = at3 + interval '60 s' FROM scene WHERE payout_id = p3;
-- @lockdb
SELECT pg_temp.revoked(t3, account, by3, at3 + interval '20 s') FROM scene;
-- @finding
t3, NULL, NULL, NULL
