-- Posted in the very transaction that created the payout.
-- @paydb
UPDATE ledger_entry l SET created_at = s.at3 FROM scene s WHERE l.payout_id = s.p3;
