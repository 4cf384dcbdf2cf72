-- Waits for the attempts that read the old floor (K-7.8).
LOCK TABLE rail_high_water IN SHARE ROW EXCLUSIVE MODE;
