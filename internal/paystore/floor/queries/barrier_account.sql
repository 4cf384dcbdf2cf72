-- Waits for the postings that read the old floor (K-7.8).
LOCK TABLE account IN SHARE ROW EXCLUSIVE MODE;
