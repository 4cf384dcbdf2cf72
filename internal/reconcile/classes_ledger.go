package reconcile

// explainIt is the next step for most findings.
const explainIt = "dlockctl reconcile explain {finding}"

// ledger is a class of balances and legs.
func ledger(id, name string, severity Severity, over, rule, names string) Class {
	return Class{ID: id, Name: name, Severity: severity, Rule: rule, Names: names, Reads: ReadsPay, Over: over, Next: explainIt}
}

func ledgerClasses() []Class {
	const (
		ofLeg  = "the token on the leg"
		ofLegs = "the tokens on the legs"
		holder = "the token that holds the payout"
	)
	unanchored := ledger(unanchoredClass, "balance_unanchored", Low, "accounts",
		"An account has an opening balance, or a baseline knows one: without it there is nothing to compare with.", "nobody")
	unanchored.Next = "dlockctl reconcile baseline"
	return []Class{
		ledger("A01", "balance_drift", High, "accounts",
			"An account's balance is its opening balance plus its credits less its debits.",
			"the token that changed the balance without a leg, or wrote a leg without the balance"),
		unanchored,
		ledger("A04", "negative_balance", Critical, "accounts",
			"No balance is below zero.", "the token of the last posting"),
		ledger("A05", "one_legged", Critical, "payouts",
			"A payout that has legs has a DEBIT and a CREDIT.", ofLegs),
		ledger("A06", "unbalanced_payout", Critical, "payouts",
			"The debits of a payout are as much as its credits.", ofLegs),
		ledger("A07", "leg_amount_mismatch", Critical, "payouts",
			"What is posted for a payout is the payout's amount.", ofLegs),
		ledger("A08", "wrong_account_leg", Critical, "payouts",
			"A payout debits its payer and credits a clearing account of its currency, once each.", ofLegs),
		ledger("A09", "same_account_both_sides", High, "payouts",
			"No account is on both sides of a payout.", ofLegs),
		ledger("A10", "bad_amount", High, "legs",
			"A leg is a DEBIT or a CREDIT of more than zero, and no sum of an account is beyond 64 bits.", ofLeg),
		ledger("A11", "posted_without_legs", Critical, "payouts",
			"A POSTED payout has legs.", holder),
		ledger("A12", "legs_without_posted", Critical, "payouts",
			"A payout that has legs is POSTED.", ofLegs),
		ledger("A13", "legs_on_failed", Critical, "payouts",
			"A FAILED or ABANDONED payout has no legs.", ofLegs),
		ledger("A14", "orphan_leg", High, "legs",
			"The payout and the account of a leg exist, and so do the payout of a claim and the account of a payout and of an opening balance.", "the token on it"),
		ledger("A15", "split_fence", Critical, "payouts",
			"The legs of a payout carry one token.", ofLegs),
		ledger("A16", "currency_mismatch", Critical, "payouts",
			"A payout is in the currency of the account that pays it, and of the one that is credited.", holder),
		ledger("A20", "backdated_leg", High, "legs",
			"A leg is not older than its payout, nor from the future.", ofLeg),
	}
}

// ledgerFamilies read the legs twice: by account, and by payout.
func ledgerFamilies() []family {
	return []family{
		{
			name: "legs", reads: ReadsPay, reread: byPayout, weight: 7,
			classes: []string{"A05", "A06", "A07", "A08", "A09", "A10", "A11", "A12", "A13", "A14", "A15", "A20"},
		},
		{name: "accounts", reads: ReadsPay, reread: byOwn, weight: 5, classes: []string{"A01", unanchoredClass, "A04", "A10", "A14"}},
		{name: "currencies", reads: ReadsPay, reread: byPayout, weight: 2, classes: []string{"A14", "A16"}},
	}
}
