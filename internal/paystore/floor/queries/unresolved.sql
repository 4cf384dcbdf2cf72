-- Neither final nor resolved in this life of paydb (K-7.9).
SELECT count(*) FROM payout p
 WHERE p.state NOT IN ('POSTED', 'FAILED', 'ABANDONED') AND NOT payout_resolved(p.payout_id, false);
