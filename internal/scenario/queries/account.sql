-- An account of nobody, in the currency that ISO 4217 keeps for tests.
INSERT INTO account (account_id, currency, balance_minor) VALUES (:account_id, 'XTS', 1000);
