-- The stage of a fault, one row for each: an account whose last three payouts went
-- plainly (POSTED, one token, one ACKED attempt), and a neighbour like it, both used
-- by no other fault. Everything a file of faults names is here.
CREATE TEMP TABLE scene (
    n                INTEGER,     -- which scene of the world it is
    account          UUID,        -- the payer
    currency         TEXT,
    clearing         UUID,        -- where p3 was credited
    spare            UUID,        -- another shard of the currency
    foreign_currency TEXT,
    foreign_clearing UUID,
    p1 UUID, p2 UUID, p3 UUID,    -- the last three payouts, the newest p3
    t1 BIGINT, t2 BIGINT, t3 BIGINT, -- their tokens; t3 - 1 and t3 + 1 were never granted
    at3              TIMESTAMPTZ, -- when p3 was created; posted 4 s later
    by3              TEXT,        -- who held t3
    other_by         TEXT,        -- another worker
    other            UUID,        -- the neighbour, of another currency
    other_p3 UUID, other_t3 BIGINT,
    f1 BIGINT, f2 BIGINT,         -- fresh tokens: issued last, granted to nobody yet
    forged           BIGINT,      -- a number that was never issued
    x1 UUID, x2 UUID, x3 UUID     -- ids for new rows
) ON COMMIT DROP;
