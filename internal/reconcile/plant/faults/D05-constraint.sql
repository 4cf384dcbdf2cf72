-- A foreign key that was made again, and never looked at what stood.
-- @paydb
ALTER TABLE ledger_entry DROP CONSTRAINT ledger_entry_payout_id_fkey;
ALTER TABLE ledger_entry ADD CONSTRAINT ledger_entry_payout_id_fkey FOREIGN KEY (payout_id) REFERENCES payout (payout_id) NOT VALID;
-- @finding
0, NULL, NULL, 'ledger_entry_payout_id_fkey'
