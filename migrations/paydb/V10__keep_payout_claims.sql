-- Every claim a payout ever had (K-5.2). A release forgets the token on the row,
-- and a zombie with 35 could claim what 40 claimed and released.
-- Locks: SHARE ROW EXCLUSIVE on payout while it is read once and indexed.

CREATE TABLE payout_claim (
    payout_id   UUID        NOT NULL REFERENCES payout (payout_id),
    claim_token BIGINT      NOT NULL,
    claimed_by  TEXT        NOT NULL,
    claimed_at  TIMESTAMPTZ NOT NULL DEFAULT now(),
    CONSTRAINT payout_claim_pkey     PRIMARY KEY (payout_id, claim_token),
    CONSTRAINT payout_claim_token_ck CHECK (claim_token BETWEEN 1 AND 9007199254740992)
);

-- A claim that commits after the copy below has read would be in neither.
LOCK TABLE payout IN SHARE ROW EXCLUSIVE MODE;
-- C1 lets a FAILED payout have a token without a name.
INSERT INTO payout_claim (payout_id, claim_token, claimed_by, claimed_at)
SELECT payout_id, claim_token, coalesce(claimed_by, 'unknown'), updated_at
  FROM payout
 WHERE claim_token > 0;

-- The open non-PENDING payouts of an account: its next holder takes these over
-- before it posts.
CREATE INDEX payout_open_idx ON payout (account_id)
    WHERE state IN ('CLAIMED', 'RAIL_SUBMITTED', 'RAIL_ACKED', 'RAIL_AMBIGUOUS');

CREATE TRIGGER payout_claim_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON payout_claim
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
ALTER TABLE payout_claim ENABLE ALWAYS TRIGGER payout_claim_append_only;

-- 0 rows for a token that came too late. The payout's row is locked here, so
-- nobody adds a claim between this look and the record below.
CREATE FUNCTION payout_claim_order() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF current_setting('session_replication_role') <> 'replica'
     AND EXISTS (SELECT FROM payout_claim c WHERE c.payout_id = NEW.payout_id AND c.claim_token >= NEW.claim_token) THEN
    RETURN NULL;
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER payout_claim_order BEFORE UPDATE ON payout
  FOR EACH ROW WHEN (NEW.claim_token IS NOT NULL AND NEW.claim_token IS DISTINCT FROM OLD.claim_token)
  EXECUTE FUNCTION payout_claim_order();
ALTER TABLE payout ENABLE ALWAYS TRIGGER payout_claim_order;

-- SECURITY DEFINER: every claim is recorded, and no role has INSERT here. AFTER
-- INSERT sees only replayed rows (V9). Replication publishes payout, and leaves
-- this table out: the subscriber fills its own.
CREATE FUNCTION payout_claim_record() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  INSERT INTO payout_claim (payout_id, claim_token, claimed_by)
  VALUES (NEW.payout_id, NEW.claim_token, coalesce(NEW.claimed_by, 'unknown'))
  ON CONFLICT (payout_id, claim_token) DO NOTHING;
  RETURN NULL;
END $$;
-- Whoever may execute it could attach it to a table of his own, and forge claims.
REVOKE EXECUTE ON FUNCTION payout_claim_record() FROM PUBLIC;
CREATE TRIGGER payout_claim_record AFTER UPDATE ON payout
  FOR EACH ROW WHEN (NEW.claim_token IS NOT NULL AND NEW.claim_token IS DISTINCT FROM OLD.claim_token)
  EXECUTE FUNCTION payout_claim_record();
ALTER TABLE payout ENABLE ALWAYS TRIGGER payout_claim_record;
CREATE TRIGGER payout_claim_record_new AFTER INSERT ON payout
  FOR EACH ROW WHEN (NEW.claim_token IS NOT NULL) EXECUTE FUNCTION payout_claim_record();
ALTER TABLE payout ENABLE ALWAYS TRIGGER payout_claim_record_new;

DO $$
BEGIN
  EXECUTE format('ALTER FUNCTION payout_claim_order() SET search_path = pg_catalog, %I, pg_temp', current_schema());
  EXECUTE format('ALTER FUNCTION payout_claim_record() SET search_path = pg_catalog, %I, pg_temp', current_schema());
END $$;
