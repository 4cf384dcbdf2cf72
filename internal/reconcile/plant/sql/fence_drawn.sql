-- The fences that operators drew, on their way into the operator log.
CREATE TEMP TABLE fence_drawn (token BIGINT, prev_token BIGINT, lock_key TEXT, account_id TEXT, logged_at TIMESTAMPTZ);
