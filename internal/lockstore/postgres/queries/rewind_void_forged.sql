-- No audit row can name a token above 2^53 (K-1.6).
DELETE FROM lock_entry WHERE lock_key = ANY(:keys);
