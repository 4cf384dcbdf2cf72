-- C1 1.6 (a), to the letter; a test holds it to paystore/posting's.
UPDATE account
   SET balance_minor = balance_minor - :amount_minor,
       fence         = :token,
       updated_at    = now()
 WHERE account_id    = :account_id
   AND currency      = :currency
   AND fence         < :token
   AND balance_minor >= :amount_minor
RETURNING balance_minor, fence;
