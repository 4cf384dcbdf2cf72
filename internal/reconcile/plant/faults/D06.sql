-- The clock of lockdb is a minute ahead. Its sessions take a clock of the schema's for
-- the server's, from the next connection on.
-- @lockdb
CREATE OR REPLACE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS $$SELECT pg_catalog.clock_timestamp() + interval '1 minute'$$;
DO $$BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = public, pg_catalog', current_database()); END$$;
-- @finding
0, NULL, NULL, NULL
