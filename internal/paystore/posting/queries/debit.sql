-- C1 1.6 (a), to the letter. 0 rows: fenced out, or the account cannot pay (K-4.3).
UPDATE account
   SET balance_minor = balance_minor - :amount_minor,
       fence         = :token,
       updated_at    = now()
 WHERE account_id    = :account_id
   AND currency      = :currency
   AND fence         < :token
   AND balance_minor >= :amount_minor
RETURNING balance_minor, fence;
