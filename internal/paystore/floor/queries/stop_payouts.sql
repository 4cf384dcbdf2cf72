-- A payout that is being created now would be missed by the count.
LOCK TABLE payout IN SHARE ROW EXCLUSIVE MODE;
