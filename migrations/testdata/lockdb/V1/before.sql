-- Nothing of ours stands yet.
SELECT relname FROM pg_class WHERE relname IN ('lock_session', 'lock_entry', 'fencing_token_seq');
