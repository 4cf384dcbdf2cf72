-- What is compared on a new connection: the token issued last, the highest that
-- the journal has, and for how long this server has been up. A forged row above
-- 2^53 names no grant (K-1.6).
SELECT CASE WHEN q.is_called THEN q.last_value ELSE q.last_value - 1 END,
       coalesce((SELECT max(g.fencing_token) FROM lock_grant g WHERE g.fencing_token <= 9007199254740992), 0),
       extract(epoch FROM now() - pg_postmaster_start_time())::float8
  FROM fencing_token_seq q;
