-- Whether this login is one that may write marks and attempts (K-4.6).
SELECT has_column_privilege('rail_high_water', 'highest_token', 'INSERT')
   AND has_column_privilege('rail_submission', 'outcome', 'INSERT')
   AND has_column_privilege('rail_submission', 'outcome', 'UPDATE');
