-- Whether this is paydb, or lockdb by a mistaken address.
SELECT to_regclass('payout') IS NOT NULL, to_regclass('lock_entry') IS NOT NULL;
