SELECT s.seqcache, s.seqcycle, s.seqincrement, s.seqtypid::regtype::text, c.relpersistence::text
  FROM pg_sequence s JOIN pg_class c ON c.oid = s.seqrelid
 WHERE c.oid = 'fencing_token_seq'::regclass;
