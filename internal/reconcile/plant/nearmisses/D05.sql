-- An index and a check of the operators' own.
-- @paydb
CREATE INDEX ledger_entry_operators_idx ON ledger_entry (created_at);
ALTER TABLE payout ADD CONSTRAINT payout_operators_ck CHECK (attempt_count < 1000);
