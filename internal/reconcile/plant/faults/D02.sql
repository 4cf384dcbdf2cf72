-- A cache: two connections would be granted out of order.
-- @lockdb
ALTER SEQUENCE fencing_token_seq CACHE 20;
-- @finding
0, NULL, NULL, 'fencing_token_seq'
