-- Of those who wait, whose session still lives (K-2.3).
SELECT session_id FROM lock_session WHERE session_id = ANY(:session_ids::uuid[]) AND expires_at > now();
