-- Since the sealed run tokens were drawn that nobody used.
-- @lockdb
SELECT nextval('fencing_token_seq') FROM generate_series(1, 3);
