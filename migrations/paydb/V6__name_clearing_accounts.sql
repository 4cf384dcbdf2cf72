-- Which accounts are clearing accounts (K-4.7): the CREDIT leg of a posting goes
-- to one of its currency's shards. They are ordinary rows of account without a
-- fence and without payouts; fence rules do not apply to them.
-- Locks: SHARE ROW EXCLUSIVE on account and payout while the foreign key and the
-- triggers are made.
--
-- About every guard of this and the later versions:
-- * ENABLE ALWAYS, with a search_path of its own, because logical apply and
--   pg_restore run with an empty one (K-1.1).
-- * In replica mode a row that is replayed keeps what it says by itself, but is
--   not compared with other rows again: that was done where it was first
--   written, and tables arrive in any order. Foreign keys behave the same way.
-- * An impossible request raises 23514 with the guard's name as constraint, a
--   change of evidence 42501. A token that came too late gets 0 rows, as from
--   the predicates of C1 1.6.

CREATE TABLE clearing_account (
    account_id UUID    PRIMARY KEY REFERENCES account (account_id),
    currency   CHAR(3) NOT NULL,
    shard      INTEGER NOT NULL,
    CONSTRAINT clearing_account_shard_ck CHECK (shard >= 0),
    CONSTRAINT clearing_account_shard_uq UNIQUE (currency, shard)
);

-- For every table whose rows are evidence.
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE insufficient_privilege USING
    MESSAGE = format('%s refused: the rows of %I are evidence', TG_OP, TG_TABLE_NAME),
    CONSTRAINT = TG_NAME, TABLE = TG_TABLE_NAME, SCHEMA = TG_TABLE_SCHEMA;
END $$;

CREATE FUNCTION clearing_account_guard() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  named account%ROWTYPE;
BEGIN
  IF current_setting('session_replication_role') = 'replica' THEN
    RETURN NEW;
  END IF;
  -- FOR UPDATE: a payout from this account or a raise of its fence that is under
  -- way ends first, and those that come later see it named.
  SELECT * INTO named FROM account a WHERE a.account_id = NEW.account_id FOR UPDATE;
  IF named.currency <> NEW.currency THEN
    RAISE check_violation USING CONSTRAINT = 'clearing_account_guard',
      MESSAGE = format('account %s holds %s, it cannot clear %s', NEW.account_id, named.currency, NEW.currency);
  END IF;
  IF named.fence <> 0 OR EXISTS (SELECT FROM payout p WHERE p.account_id = NEW.account_id) THEN
    RAISE check_violation USING CONSTRAINT = 'clearing_account_guard',
      MESSAGE = format('account %s has a fence or payouts, it cannot be a clearing account', NEW.account_id);
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER clearing_account_guard BEFORE INSERT ON clearing_account
  FOR EACH ROW EXECUTE FUNCTION clearing_account_guard();
ALTER TABLE clearing_account ENABLE ALWAYS TRIGGER clearing_account_guard;

-- Legs are bound to these rows: a shard is added, never moved or retired.
CREATE TRIGGER clearing_account_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON clearing_account
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
ALTER TABLE clearing_account ENABLE ALWAYS TRIGGER clearing_account_append_only;

-- A fence on a clearing account would stop every posting of its currency.
CREATE FUNCTION account_clearing_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT FROM clearing_account c WHERE c.account_id = NEW.account_id) THEN
    RAISE check_violation USING CONSTRAINT = 'account_clearing_guard',
      MESSAGE = format('account %s is a clearing account, it has no fence', NEW.account_id);
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER account_clearing_guard BEFORE UPDATE ON account
  FOR EACH ROW WHEN (NEW.fence <> OLD.fence) EXECUTE FUNCTION account_clearing_guard();
ALTER TABLE account ENABLE ALWAYS TRIGGER account_clearing_guard;

CREATE FUNCTION payout_clearing_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF current_setting('session_replication_role') = 'replica' THEN
    RETURN NEW;
  END IF;
  -- The lock that the foreign key takes a moment later, see clearing_account_guard.
  PERFORM FROM account a WHERE a.account_id = NEW.account_id FOR KEY SHARE;
  IF EXISTS (SELECT FROM clearing_account c WHERE c.account_id = NEW.account_id) THEN
    RAISE check_violation USING CONSTRAINT = 'payout_clearing_guard',
      MESSAGE = format('account %s is a clearing account, it pays nothing out', NEW.account_id);
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER payout_clearing_guard BEFORE INSERT ON payout
  FOR EACH ROW EXECUTE FUNCTION payout_clearing_guard();
ALTER TABLE payout ENABLE ALWAYS TRIGGER payout_clearing_guard;

DO $$
BEGIN
  EXECUTE format('ALTER FUNCTION refuse_change() SET search_path = pg_catalog, %I, pg_temp', current_schema());
  EXECUTE format('ALTER FUNCTION clearing_account_guard() SET search_path = pg_catalog, %I, pg_temp', current_schema());
  EXECUTE format('ALTER FUNCTION account_clearing_guard() SET search_path = pg_catalog, %I, pg_temp', current_schema());
  EXECUTE format('ALTER FUNCTION payout_clearing_guard() SET search_path = pg_catalog, %I, pg_temp', current_schema());
END $$;
