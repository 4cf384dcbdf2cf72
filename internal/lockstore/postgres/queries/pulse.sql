-- How busy lockdb is: the last number drawn, the grants since a token, and the
-- processes that wait for another's lock.
SELECT CASE WHEN s.is_called THEN s.last_value ELSE s.last_value - 1 END,
       (SELECT count(*) FROM lock_grant WHERE fencing_token > :since),
       (SELECT count(*) FROM pg_locks w JOIN pg_database d ON d.oid = w.database
         WHERE NOT w.granted AND d.datname = current_database())
  FROM fencing_token_seq s;
