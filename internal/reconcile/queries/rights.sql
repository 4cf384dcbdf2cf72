-- What stands between this login and all the rows of what it has to read.
SELECT want.name,
       CASE WHEN to_regclass(want.name) IS NULL THEN 'there is no ' || want.name
            WHEN NOT has_table_privilege(to_regclass(want.name), 'SELECT') THEN current_user || ' may not read ' || want.name
            WHEN row_security_active(to_regclass(want.name)) THEN 'row-level security may hide rows of ' || want.name || ' from ' || current_user
            ELSE '' END
  FROM unnest(@tables::text[]) AS want (name)
