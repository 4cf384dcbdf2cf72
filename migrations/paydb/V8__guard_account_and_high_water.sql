-- Fence and mark only rise, for every role (K-4.10): grants alone would let
-- payapp_rail lower the mark and payapp_resource lower a fence. Deleting the row
-- and writing it anew would lower them too, so DELETE and TRUNCATE are refused.
-- Locks: SHARE ROW EXCLUSIVE on both tables while the triggers are made.

CREATE FUNCTION account_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF (NEW.account_id, NEW.currency) IS DISTINCT FROM (OLD.account_id, OLD.currency) THEN
    RAISE check_violation USING CONSTRAINT = 'account_guard',
      MESSAGE = format('id and currency of account %s are fixed', OLD.account_id);
  END IF;
  IF NEW.fence < OLD.fence THEN
    RAISE check_violation USING CONSTRAINT = 'account_guard',
      MESSAGE = format('the fence of account %s may not go back from %s to %s', OLD.account_id, OLD.fence, NEW.fence);
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER account_guard BEFORE UPDATE ON account
  FOR EACH ROW WHEN (NEW.fence < OLD.fence OR NEW.account_id <> OLD.account_id OR NEW.currency <> OLD.currency)
  EXECUTE FUNCTION account_guard();
ALTER TABLE account ENABLE ALWAYS TRIGGER account_guard;

CREATE TRIGGER account_kept BEFORE DELETE OR TRUNCATE ON account
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
ALTER TABLE account ENABLE ALWAYS TRIGGER account_kept;

CREATE FUNCTION rail_high_water_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE check_violation USING CONSTRAINT = 'rail_high_water_guard',
    MESSAGE = format('the rail''s mark of account %s may not go back from %s to %s', OLD.account_id, OLD.highest_token, NEW.highest_token);
END $$;
CREATE TRIGGER rail_high_water_guard BEFORE UPDATE ON rail_high_water
  FOR EACH ROW WHEN (NEW.highest_token < OLD.highest_token OR NEW.account_id <> OLD.account_id)
  EXECUTE FUNCTION rail_high_water_guard();
ALTER TABLE rail_high_water ENABLE ALWAYS TRIGGER rail_high_water_guard;

CREATE TRIGGER rail_high_water_kept BEFORE DELETE OR TRUNCATE ON rail_high_water
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
ALTER TABLE rail_high_water ENABLE ALWAYS TRIGGER rail_high_water_kept;

DO $$
BEGIN
  EXECUTE format('ALTER FUNCTION account_guard() SET search_path = pg_catalog, %I, pg_temp', current_schema());
  EXECUTE format('ALTER FUNCTION rail_high_water_guard() SET search_path = pg_catalog, %I, pg_temp', current_schema());
END $$;
