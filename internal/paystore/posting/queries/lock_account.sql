SELECT fence FROM account WHERE account_id = :account_id FOR NO KEY UPDATE;
