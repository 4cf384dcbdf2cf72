-- The partitions of the journal, each with its range; DEFAULT has none.
SELECT quote_ident(c.relname),
       coalesce(substring(pg_get_expr(c.relpartbound, c.oid) FROM 'FROM \(''(\d+)''\)')::bigint, 0),
       coalesce(substring(pg_get_expr(c.relpartbound, c.oid) FROM 'TO \(''(\d+)''\)')::bigint, 0)
  FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
 WHERE i.inhparent = 'lock_grant'::regclass
 ORDER BY 2, 1;
