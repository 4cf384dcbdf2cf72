-- Whether this is lockdb, or paydb by a mistaken address.
SELECT to_regclass('lock_entry') IS NOT NULL, to_regclass('payout') IS NOT NULL;
