-- The entries go by cascade (FR-04).
DELETE FROM lock_session WHERE session_id = ANY(:session_ids);
