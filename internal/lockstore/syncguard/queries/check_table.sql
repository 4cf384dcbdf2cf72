-- Whether the table is there, or its lower-case twin instead; which columns are
-- missing or of another type; whether its key is unique, on which exclusion rests, and
-- the deferrable constraint that makes it so only in the end.
SELECT to_regclass(:table) IS NOT NULL, to_regclass(:folded) IS NOT NULL,
       ARRAY(SELECT c FROM unnest(:columns::text[]) c
              WHERE NOT EXISTS (SELECT FROM pg_attribute a
                                 WHERE a.attrelid = to_regclass(:table) AND NOT a.attisdropped
                                   AND a.attname || ' ' || format_type(a.atttypid, a.atttypmod) = c)),
       EXISTS (SELECT FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
                WHERE i.indrelid = to_regclass(:table) AND i.indisunique AND i.indisvalid AND i.indimmediate AND i.indnkeyatts = 1
                  AND i.indpred IS NULL AND a.attname = :key_column),
       coalesce((SELECT quote_ident(k.conname)
                   FROM pg_constraint k JOIN pg_attribute a ON a.attrelid = k.conrelid AND k.conkey = ARRAY[a.attnum]
                  WHERE k.conrelid = to_regclass(:table) AND k.contype IN ('p', 'u') AND k.condeferrable AND a.attname = :key_column
                  ORDER BY k.contype LIMIT 1), '');
