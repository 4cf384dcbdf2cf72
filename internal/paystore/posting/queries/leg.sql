-- C1 1.6 (b), to the letter. 0 rows: the fence moved past the token.
INSERT INTO ledger_entry (entry_id, payout_id, account_id, direction, amount_minor, fence)
SELECT :entry_id, :payout_id, a.account_id, :direction, :amount_minor, :token
  FROM account a
 WHERE a.account_id = :account_id
   AND a.fence     <= :token
RETURNING entry_id;
