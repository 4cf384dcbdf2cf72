-- What the rail is asked to pay, from the payout row alone (K-4.10), and whether
-- the token ever claimed it (K-5.2). That it was paid, recorded in whatever life of
-- paydb, is never forgotten: it is not forwarded again (K-7.9).
SELECT p.payout_id, p.account_id, p.amount_minor, p.currency, p.idempotency_key, p.state, coalesce(p.claim_token, 0),
       EXISTS (SELECT FROM payout_claim c WHERE c.payout_id = p.payout_id AND c.claim_token = :token),
       EXISTS (SELECT FROM payout_resolution r WHERE r.payout_id = p.payout_id AND r.verdict = 'PAID')
  FROM payout p
 WHERE p.payout_id = :payout_id;
