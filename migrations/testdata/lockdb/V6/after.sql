INSERT INTO operator_log (action, operator, reason, token) VALUES ('test', 'erin', 'first', NULL), ('test', 'erin', 'second', 7);
-- Each link carries the hash of the one before, and its own is right (K-3.6).
SELECT 'hash', id FROM operator_log entry WHERE hash <> operator_log_hash(entry);
SELECT 'link', id FROM (SELECT id, previous_hash, lag(hash, 1, sha256('')) OVER (ORDER BY id) AS before FROM operator_log) chain
 WHERE previous_hash <> before;
SELECT 'ids' WHERE (SELECT array_agg(id ORDER BY id) FROM operator_log) <> ARRAY[1, 2]::bigint[];
