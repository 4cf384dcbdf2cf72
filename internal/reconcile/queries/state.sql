-- Which state of which server a snapshot is. A standby's lag is the age of the last
-- transaction that it has replayed: at most so far is it behind.
SELECT now(), pg_snapshot_xmin(pg_current_snapshot())::text::bigint,
       CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END::text,
       CASE WHEN pg_is_in_recovery() THEN coalesce(extract(epoch FROM now() - pg_last_xact_replay_timestamp()) * 1000, 0)
            ELSE 0 END::bigint, current_database()::text
