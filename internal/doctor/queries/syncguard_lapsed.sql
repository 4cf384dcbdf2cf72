-- How many leases ended more than a day ago.
SELECT count(*) FROM syncguard_locks WHERE expires_at_ms < floor(extract(epoch FROM now()) * 1000) - 86400000;
