-- Where it would begin anew is nothing that K-1.5 speaks of.
-- @lockdb
ALTER SEQUENCE fencing_token_seq START WITH 500;
