-- The token last issued, and the highest there can be. Read from the sequence
-- itself: pg_sequences gives NULL, and no error, where a right is missing (K-7.2).
SELECT CASE WHEN q.is_called THEN q.last_value ELSE q.last_value - 1 END, s.seqmax
  FROM fencing_token_seq q, pg_sequence s WHERE s.seqrelid = 'fencing_token_seq'::regclass;
