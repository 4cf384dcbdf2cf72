-- What should have been cleared away: sessions that lapsed more than a minute ago,
-- and entries whose lease ended more than a day ago.
SELECT (SELECT count(*) FROM lock_session WHERE expires_at < now() - interval '1 minute'),
       (SELECT count(*) FROM lock_entry WHERE expires_at < now() - interval '1 day');
