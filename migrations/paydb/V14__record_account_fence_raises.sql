-- Who raised an account's fence by hand, and why (K-3.2): `dlockctl revoke
-- --fence-account` draws F in lockdb, raises account.fence to it and says so here.
-- One row per account and F, so that a rerun finishes what is pending.
-- Locks: SHARE ROW EXCLUSIVE on account while the foreign key is made.

CREATE TABLE account_fence_raise (
    raise_id       BIGINT      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    account_id     UUID        NOT NULL REFERENCES account (account_id),
    raised_from    BIGINT      NOT NULL,
    raised_to      BIGINT      NOT NULL,
    operator       TEXT        NOT NULL,
    reason         TEXT        NOT NULL,
    raised_at      TIMESTAMPTZ NOT NULL DEFAULT now(),
    login_role     TEXT        NOT NULL DEFAULT session_user,
    client_address INET                 DEFAULT inet_client_addr(),
    CONSTRAINT account_fence_raise_uq          UNIQUE (account_id, raised_to),
    CONSTRAINT account_fence_raise_token_ck    CHECK (raised_from >= 0 AND raised_to > raised_from AND raised_to <= 9007199254740992),
    CONSTRAINT account_fence_raise_operator_ck CHECK (operator ~ '\S'),
    CONSTRAINT account_fence_raise_reason_ck   CHECK (reason ~ '\S')
);

CREATE TRIGGER account_fence_raise_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON account_fence_raise
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
ALTER TABLE account_fence_raise ENABLE ALWAYS TRIGGER account_fence_raise_append_only;
