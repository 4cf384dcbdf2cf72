-- Changes nothing: any ALTER blocks nextval until the commit, and waits for each
-- transaction that has drawn. OWNED BY is the one clause that hides nothing of
-- what the checks read next; LOCK TABLE does not take a sequence.
ALTER SEQUENCE fencing_token_seq OWNED BY NONE;
