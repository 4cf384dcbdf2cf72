-- pg_temp.try runs one statement, undoes it and tells what it did: the number of
-- rows, or the SQLSTATE with the constraint's name.
CREATE FUNCTION pg_temp.try(statement TEXT) RETURNS TEXT LANGUAGE plpgsql AS $$
DECLARE
  n BIGINT;
  refused_by TEXT;
BEGIN
  EXECUTE statement;
  GET DIAGNOSTICS n = ROW_COUNT;
  RAISE EXCEPTION USING ERRCODE = 'UNDO0', MESSAGE = n::text;
EXCEPTION
  WHEN SQLSTATE 'UNDO0' THEN
    RETURN SQLERRM;
  WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS refused_by = CONSTRAINT_NAME;
    RETURN rtrim(SQLSTATE || ' ' || refused_by);
END $$;

-- Ids that can be read: pg_temp.id('a', 1) is a0000000-0000-0000-0000-000000000001.
-- a = account, c = clearing account, b = payout, d = leg, e = attempt.
CREATE FUNCTION pg_temp.id(kind TEXT, n INT) RETURNS UUID LANGUAGE sql AS
  $$SELECT (kind || '0000000-0000-0000-0000-' || lpad(n::text, 12, '0'))::uuid$$;
