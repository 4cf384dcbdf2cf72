-- Whose login this is (K-4.6): each of the two services writes what the other may
-- not. A superuser may write both.
SELECT current_user::text,
       has_column_privilege('account', 'balance_minor', 'UPDATE')
         AND has_column_privilege('payout', 'state', 'UPDATE')
         AND has_column_privilege('ledger_entry', 'fence', 'INSERT'),
       has_column_privilege('rail_high_water', 'highest_token', 'INSERT')
         AND has_column_privilege('rail_high_water', 'highest_token', 'UPDATE')
         AND has_column_privilege('rail_submission', 'outcome', 'UPDATE'),
       has_any_column_privilege('account', 'INSERT, UPDATE') OR has_any_column_privilege('payout', 'INSERT, UPDATE')
         OR has_any_column_privilege('ledger_entry', 'INSERT, UPDATE'),
       has_any_column_privilege('rail_high_water', 'INSERT, UPDATE') OR has_any_column_privilege('rail_submission', 'INSERT, UPDATE');
