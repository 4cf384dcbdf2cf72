-- (a) without its fence, for the negative control (K-4.5). The fence is still never
-- lowered, which the account's guard would refuse.
UPDATE account
   SET balance_minor = balance_minor - :amount_minor,
       fence         = greatest(fence, :token),
       updated_at    = now()
 WHERE account_id    = :account_id
   AND currency      = :currency
   AND balance_minor >= :amount_minor
RETURNING balance_minor, fence;
