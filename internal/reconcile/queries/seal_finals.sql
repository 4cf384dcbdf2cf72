-- The fingerprints of the payouts that no arrow leads on from.
SELECT hashtextextended(payout_id::text || ':' || state, 7310) FROM payout WHERE state IN ('POSTED', 'FAILED', 'ABANDONED');
