-- Half a minute the other way round: the order of commits is not recorded, so the
-- grace is 60 s.
-- @paydb
UPDATE ledger_entry l SET created_at = s.at3 + interval '34 s' FROM scene s WHERE l.payout_id = s.p2;
UPDATE payout SET updated_at = at3 + interval '34 s' FROM scene WHERE payout_id = p2;
