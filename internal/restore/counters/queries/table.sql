-- $1: a table's name as SQL has it. Whether it is there.
SELECT to_regclass($1) IS NOT NULL;
