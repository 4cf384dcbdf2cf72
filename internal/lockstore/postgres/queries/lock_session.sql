-- Session first, entries second: the order of every writer (K-2.4).
SELECT session_id FROM lock_session WHERE session_id = :session_id FOR UPDATE;
