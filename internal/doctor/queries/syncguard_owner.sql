-- $1: the lock table's name as SQL has it. Who may change the tables.
SELECT quote_ident(pg_get_userbyid(relowner)) FROM pg_class WHERE oid = to_regclass($1::text);
