-- What the faults on paydb are made of. Triggers are silent, so each function says
-- itself what has to follow.

-- The money of a leg that is made or unmade.
CREATE OR REPLACE FUNCTION pg_temp.move(id UUID, minor NUMERIC) RETURNS void LANGUAGE sql AS $$
  UPDATE account SET balance_minor = balance_minor + minor WHERE account_id = id
$$;

-- Takes a posting back: its legs, its money, and the payer's fence.
CREATE OR REPLACE FUNCTION pg_temp.unpost(id UUID) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_temp.move(l.account_id, CASE l.direction WHEN 'DEBIT' THEN l.amount_minor ELSE -l.amount_minor END)
     FROM ledger_entry l WHERE l.payout_id = id;
  DELETE FROM ledger_entry l WHERE l.payout_id = id;
  UPDATE account a
     SET fence = coalesce((SELECT max(l.fence) FROM ledger_entry l WHERE l.account_id = a.account_id), 0)
    FROM payout p WHERE p.payout_id = id AND a.account_id = p.account_id;
END $$;

-- Moves a payout in time with all that belongs to it, so that it was last touched
-- `ago`: grace periods count from there.
CREATE OR REPLACE FUNCTION pg_temp.touched(id UUID, ago INTERVAL) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  by_ INTERVAL := (SELECT now() - ago - p.updated_at FROM payout p WHERE p.payout_id = id);
BEGIN
  UPDATE payout SET created_at = created_at + by_, updated_at = updated_at + by_ WHERE payout_id = id;
  UPDATE payout_claim SET claimed_at = claimed_at + by_ WHERE payout_id = id;
  UPDATE rail_submission SET submitted_at = submitted_at + by_, resolved_at = resolved_at + by_ WHERE payout_id = id;
  UPDATE ledger_entry SET created_at = created_at + by_ WHERE payout_id = id;
END $$;

-- A claim that the payout had before the one it has.
CREATE OR REPLACE FUNCTION pg_temp.claimed(id UUID, token BIGINT, by_ TEXT) RETURNS void LANGUAGE sql AS $$
  INSERT INTO payout_claim (payout_id, claim_token, claimed_by, claimed_at)
  SELECT id, token, by_, p.created_at FROM payout p WHERE p.payout_id = id
$$;

-- A payout of 100 that was last touched `ago`, claimed unless the token is NULL.
CREATE OR REPLACE FUNCTION pg_temp.payout(id UUID, payer UUID, at_ TEXT, token BIGINT, by_ TEXT, ago INTERVAL) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO payout (payout_id, account_id, amount_minor, currency, state, claimed_by, claim_token, idempotency_key, created_at, updated_at)
  SELECT id, payer, 100, a.currency, at_, CASE WHEN token IS NOT NULL THEN by_ END, token, 'planted-' || id, now() - ago - interval '3 s', now() - ago
    FROM account a WHERE a.account_id = payer;
  IF token IS NOT NULL THEN
    PERFORM pg_temp.claimed(id, token, by_);
  END IF;
END $$;

-- An attempt of a payout, under a token of its own choice, when the payout was last
-- touched.
CREATE OR REPLACE FUNCTION pg_temp.attempt(attempt UUID, id UUID, token BIGINT, said TEXT, reference TEXT) RETURNS void LANGUAGE sql AS $$
  INSERT INTO rail_submission (submission_id, payout_id, idempotency_key, presented_token, outcome, rail_reference, submitted_at, resolved_at)
  SELECT attempt, id, p.idempotency_key, token, said, reference, p.updated_at, CASE WHEN said IS NOT NULL THEN p.updated_at END
    FROM payout p WHERE p.payout_id = id
$$;

-- An account with an opening balance and, for a clearing account, its shard.
CREATE OR REPLACE FUNCTION pg_temp.account(id UUID, in_currency TEXT, opening NUMERIC, shard_ INTEGER) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO account (account_id, currency, balance_minor, updated_at) VALUES (id, in_currency, greatest(opening, 0), now() - interval '90 days');
  INSERT INTO opening_balance (account_id, amount_minor, as_of, recorded_by, reason)
  VALUES (id, opening, now() - interval '90 days', 'plant', 'opened for a fault');
  IF shard_ IS NOT NULL THEN
    INSERT INTO clearing_account (account_id, currency, shard) VALUES (id, in_currency, shard_);
  END IF;
END $$;

-- A whole payout, posted three hours ago under one token.
CREATE OR REPLACE FUNCTION pg_temp.posted(id UUID, payer UUID, to_ UUID, amount NUMERIC, token BIGINT, by_ TEXT) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_temp.payout(id, payer, 'POSTED', token, by_, '3 hours');
  UPDATE payout SET amount_minor = amount, attempt_count = 1 WHERE payout_id = id;
  PERFORM pg_temp.attempt(md5('attempt' || id)::uuid, id, token, 'ACKED', 'planted-' || id);
  INSERT INTO ledger_entry (entry_id, payout_id, account_id, direction, amount_minor, fence, created_at)
  SELECT md5(direction || id)::uuid, id, account_id, direction, amount, token, now() - interval '3 hours'
    FROM (VALUES ('DEBIT', payer), ('CREDIT', to_)) leg (direction, account_id);
  PERFORM pg_temp.move(payer, -amount), pg_temp.move(to_, amount);
  UPDATE account SET fence = token WHERE account_id = payer;
  INSERT INTO rail_high_water (account_id, highest_token) VALUES (payer, token)
  ON CONFLICT (account_id) DO UPDATE SET highest_token = greatest(rail_high_water.highest_token, excluded.highest_token);
END $$;
