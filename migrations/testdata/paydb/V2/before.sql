SELECT to_regclass(t) FROM unnest(ARRAY['ledger_entry', 'rail_submission', 'rail_high_water']) t WHERE to_regclass(t) IS NOT NULL;
SELECT count(*) FROM account HAVING count(*) <> 5;
SELECT count(*) FROM payout HAVING count(*) <> 9;
