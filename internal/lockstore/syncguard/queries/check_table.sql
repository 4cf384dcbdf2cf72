-- Whether the table is there, or its lower-case twin instead; which columns are
-- missing; and whether its key is unique, on which exclusion rests.
SELECT to_regclass(:table) IS NOT NULL, to_regclass(:folded) IS NOT NULL,
       ARRAY(SELECT c FROM unnest(:columns::text[]) c
              WHERE NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = to_regclass(:table) AND a.attname = c AND NOT a.attisdropped)),
       EXISTS (SELECT FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
                WHERE i.indrelid = to_regclass(:table) AND i.indisunique AND i.indisvalid AND i.indimmediate AND i.indnkeyatts = 1
                  AND i.indpred IS NULL AND a.attname = :key_column);
