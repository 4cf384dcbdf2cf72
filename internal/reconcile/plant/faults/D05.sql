-- The index that keeps a payout to one leg in each direction is gone.
-- @paydb
DROP INDEX IF EXISTS ledger_direction_uidx;
-- @finding
0, NULL, NULL, 'ledger_direction_uidx'
