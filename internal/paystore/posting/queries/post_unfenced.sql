-- (c) without its fence, for the negative control (K-4.5).
UPDATE payout
   SET state = 'POSTED', updated_at = now()
 WHERE payout_id = :payout_id AND state = 'RAIL_ACKED'
RETURNING state;
