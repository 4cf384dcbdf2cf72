-- The last token issued. A sequence is no part of a snapshot, and a standby's may be
-- ahead of the primary's by what was logged in advance: read late, and on a primary.
SELECT CASE WHEN is_called THEN last_value ELSE last_value - 1 END FROM fencing_token_seq
