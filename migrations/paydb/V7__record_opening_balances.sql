-- What an account held before its first leg (K-4.8). C1 has no such thing, yet
-- INV-03 says balance = sum of entries. An account without a row here is
-- UNANCHORED: neither clean nor a break.
-- Locks: SHARE ROW EXCLUSIVE on account while the foreign key is made.

CREATE TABLE opening_balance (
    account_id   UUID        PRIMARY KEY REFERENCES account (account_id),
    amount_minor BIGINT      NOT NULL,
    as_of        TIMESTAMPTZ NOT NULL,
    recorded_by  TEXT        NOT NULL,
    reason       TEXT        NOT NULL,
    recorded_at  TIMESTAMPTZ NOT NULL DEFAULT now(),
    login_role   TEXT        NOT NULL DEFAULT session_user,
    CONSTRAINT opening_balance_by_ck     CHECK (recorded_by ~ '\S'),
    CONSTRAINT opening_balance_reason_ck CHECK (reason ~ '\S')
);

CREATE TRIGGER opening_balance_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON opening_balance
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
ALTER TABLE opening_balance ENABLE ALWAYS TRIGGER opening_balance_append_only;
