-- What happened in a range of the journal, and whether that is long ago by
-- lockdb's own clock. A grant that has not ended is not over.
SELECT count(*), greatest(max(granted_at), max(ended_at)), count(*) FILTER (WHERE ended IS NULL),
       coalesce(greatest(max(granted_at), max(ended_at)) < now() - make_interval(secs => :older_than), true)
  FROM lock_grant
 WHERE fencing_token >= :from_token AND fencing_token < :to_token;
