-- Key order by bytes, the same on every server whatever its collation (K-2.4).
SELECT lock_key FROM lock_entry
 WHERE session_id = ANY(:session_ids)
 ORDER BY lock_key COLLATE "C"
   FOR UPDATE;
