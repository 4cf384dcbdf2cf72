-- A batch over several sessions locks them first, in order (K-2.4); a session
-- that is gone is not among the rows, and its acquires are refused one by one.
SELECT session_id FROM lock_session
 WHERE session_id = ANY(:session_ids) AND expires_at > now()
 ORDER BY session_id
   FOR KEY SHARE;
