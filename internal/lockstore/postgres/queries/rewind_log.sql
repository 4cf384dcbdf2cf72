INSERT INTO operator_log (action, operator, reason, token, details)
VALUES (:action, :operator, :reason, :token, :details)
RETURNING id;
