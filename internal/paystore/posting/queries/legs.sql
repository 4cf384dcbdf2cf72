SELECT direction, entry_id::text, account_id::text FROM ledger_entry WHERE payout_id = :payout_id;
