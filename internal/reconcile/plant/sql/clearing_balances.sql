-- What the postings credited: a clearing account has no other movement.
UPDATE account a
   SET balance_minor = a.balance_minor + l.credit, updated_at = l.last
  FROM (SELECT account_id, sum(amount_minor) AS credit, max(created_at) AS last FROM ledger_entry WHERE direction = 'CREDIT' GROUP BY account_id) l
 WHERE a.account_id = l.account_id;
