-- The verdict that stands (V20), empty for none.
SELECT coalesce(payout_verdict(:payout_id), '');
