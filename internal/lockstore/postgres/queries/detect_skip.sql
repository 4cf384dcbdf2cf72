-- Draws numbers that nobody gets (K-7.6). The empty DELETE is here for its lock: a
-- fast-forward that closes the gate waits for this as for a grant, and behind a closed
-- gate nothing is drawn.
WITH barrier AS (DELETE FROM lock_entry WHERE false),
     gate AS MATERIALIZED (SELECT lock_gate_check())
SELECT count(nextval('fencing_token_seq')) FROM gate, generate_series(1, :numbers::bigint);
