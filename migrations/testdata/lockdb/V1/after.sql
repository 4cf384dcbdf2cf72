-- The sequence is BIGINT, CACHE 1, NO CYCLE, INCREMENT 1, logged (K-1.5).
SELECT 'sequence' FROM pg_sequence s JOIN pg_class c ON c.oid = s.seqrelid
 WHERE c.relname = 'fencing_token_seq'
   AND NOT (s.seqtypid = 'bigint'::regtype AND s.seqcache = 1 AND NOT s.seqcycle AND s.seqincrement = 1 AND c.relpersistence = 'p');
SELECT 'owner', relname FROM pg_class WHERE relname IN ('lock_session', 'lock_entry', 'fencing_token_seq') AND relowner <> 'dlock_owner'::regrole;
-- Rows for the later versions to meet: a live grant, a lapsed one, a session without any.
INSERT INTO lock_session (session_id, owner_id, created_at, expires_at) VALUES
  ('10000000-0000-4000-8000-000000000001', 'alice', now(), now() + interval '1 day'),
  ('10000000-0000-4000-8000-000000000002', 'bob',   now() - interval '1 day', now() - interval '1 hour'),
  ('10000000-0000-4000-8000-000000000003', 'carol', now(), now() + interval '1 day');
INSERT INTO lock_entry (lock_key, owner_id, session_id, fencing_token, acquired_at, expires_at) VALUES
  ('live',   'alice', '10000000-0000-4000-8000-000000000001', nextval('fencing_token_seq'), now(), now() + interval '1 hour'),
  ('lapsed', 'bob',   '10000000-0000-4000-8000-000000000002', nextval('fencing_token_seq'), now() - interval '2 hours', now() - interval '1 hour');
