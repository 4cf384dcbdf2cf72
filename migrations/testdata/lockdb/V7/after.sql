-- The grants that stood are in the journal, open.
SELECT 'copied' WHERE (SELECT count(*) FROM lock_grant WHERE ended IS NULL) <> (SELECT count(*) FROM lock_entry);
SELECT 'not copied', e.lock_key FROM lock_entry e LEFT JOIN lock_grant g USING (fencing_token, lock_key, owner_id, session_id) WHERE g IS NULL;
-- Every partition guards rows and TRUNCATE, DEFAULT too (K-11).
SELECT 'guard', c.relname FROM pg_class c WHERE c.relname LIKE 'lock\_grant%' AND c.relkind IN ('r', 'p')
   AND (SELECT count(*) FROM pg_trigger t WHERE t.tgrelid = c.oid AND t.tgenabled = 'A' AND t.tgname IN ('lock_grant_guard', 'lock_grant_no_truncate')) <> 2;
SELECT 'partitions' WHERE (SELECT count(*) FROM pg_inherits WHERE inhparent = 'lock_grant'::regclass) <> 4;
-- A grant that stood before ends as one that came after does.
DELETE FROM lock_entry WHERE lock_key = 'live';
DELETE FROM lock_session WHERE owner_id = 'bob';
SELECT 'ended', lock_key, ended FROM lock_grant WHERE (lock_key, ended) NOT IN (('live', 'released'), ('lapsed', 'reaped')) OR ended IS NULL;
