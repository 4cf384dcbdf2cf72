-- One token for two payers: t3 claimed a payout of the neighbour too, and was
-- overtaken there before it posted.
-- @paydb
SELECT pg_temp.claimed(other_p3, t3, by3) FROM scene;
-- @finding
t3, NULL, NULL, NULL
