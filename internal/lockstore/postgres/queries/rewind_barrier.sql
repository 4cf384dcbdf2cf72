-- Waits for every grant that looked at the gate while it was open (K-7.4).
LOCK TABLE lock_entry IN SHARE ROW EXCLUSIVE MODE;
