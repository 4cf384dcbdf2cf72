-- The clearing account's balance, before its leg: the leg's foreign key first costs
-- a multixact each time (K-4.7).
UPDATE account
   SET balance_minor = balance_minor + :amount_minor,
       updated_at    = now()
 WHERE account_id    = :account_id
   AND currency      = :currency
RETURNING balance_minor;
