-- What a run stands on: a rule that found nothing among no rows has found nothing out.
SELECT (SELECT count(*) FROM account) AS accounts, (SELECT count(*) FROM ledger_entry) AS legs;
