-- C1 1.6 (c), to the letter. 0 rows: not acknowledged, or a newer holder has it.
UPDATE payout
   SET state = 'POSTED', updated_at = now()
 WHERE payout_id = :payout_id AND state = 'RAIL_ACKED' AND claim_token <= :token
RETURNING state;
