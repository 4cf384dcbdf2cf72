INSERT INTO account_fence_raise (account_id, raised_from, raised_to, operator, reason)
VALUES (:account_id, :raised_from, :raised_to, :operator, :reason);
