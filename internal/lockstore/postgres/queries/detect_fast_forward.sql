-- A finished fast-forward that reached the token: what opens a store that has
-- seen lockdb set back. One from before, which a backup brings along, did not.
SELECT EXISTS (SELECT FROM operator_log WHERE action = :action AND token >= :token);
