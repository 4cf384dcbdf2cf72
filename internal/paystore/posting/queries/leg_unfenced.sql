-- (b) without its fence, for the negative control (K-4.5).
INSERT INTO ledger_entry (entry_id, payout_id, account_id, direction, amount_minor, fence)
SELECT :entry_id, :payout_id, a.account_id, :direction, :amount_minor, :token
  FROM account a
 WHERE a.account_id = :account_id
RETURNING entry_id;
