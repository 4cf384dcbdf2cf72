package reconcile

import "time"

// beginOrder is how far apart two transactions must have begun before the later one
// counts as later: when they committed is not recorded.
const beginOrder = time.Minute

// fence is a class of fencing tokens.
func fence(id, name string, severity Severity, reads Reads, over, rule, names string) Class {
	return Class{ID: id, Name: name, Severity: severity, Rule: rule, Names: names, Reads: reads, Over: over, Next: explainIt}
}

func fenceClasses() []Class {
	const (
		ofToken  = "the token"
		ofStale  = "the lower token, then the higher one that it came after"
		rewound  = "nobody: lockdb was restored or rewound"
		planNext = "dlockctl restore plan"
	)
	then := func(c Class, next string) Class { c.Next = next; return c }
	within := func(c Class, grace time.Duration) Class { c.Grace = grace; return c }
	return []Class{
		fence("B01", "leg_fence_above_account", Critical, ReadsPay, "accounts",
			"No leg carries a higher token than the fence of its account, and no recorded raise is above it.", "the tokens above the fence, the highest first"),
		fence("B02", "account_fence_without_leg", High, ReadsPay, "accounts",
			"The fence of an account is the token of its last leg, or was raised by an operator and the raise recorded.", "the fence's token"),
		within(fence("B03", "fence_regression", Critical, ReadsPay, "legs",
			"On one account no lower token posts after a higher one.", ofStale), beginOrder),
		fence("B04", "leg_fence_not_claim", Critical, ReadsPay, "payouts",
			"A payout is posted under the token that claims it.", "the legs' token, then the claim's"),
		fence("B05", "token_two_holders", Critical, ReadsBoth, "tokens",
			"One token is one grant: of one lock, to one holder, for one payer.", ofToken),
		then(fence("B06", "token_unknown", Medium, ReadsBoth, "tokens",
			"A token that paydb has seen was granted, or drawn as a fence.", ofToken), "dlockctl audit verify"),
		then(fence("B07", "token_above_sequence", Critical, ReadsBoth, "tokens",
			"Nobody writes under a token that was not issued yet.", ofToken), planNext),
		then(fence("B08", "account_fence_above_sequence", Critical, ReadsBoth, "tokens",
			"No fence, raise or floor of accounts is above the last token issued.", rewound), planNext),
		then(fence("B09", "high_water_above_sequence", Critical, ReadsBoth, "tokens",
			"No mark or floor of the rail is above the last token issued.", rewound), planNext),
		fence("B10", "high_water_below_presented", Critical, ReadsPay, "accounts",
			"The rail's mark of an account is at least the highest token that passed to the rail.", "the tokens above the mark, the highest first"),
		within(fence("B11", "rail_accepted_stale", Critical, ReadsPay, "attempts",
			"On one account no lower token passes to the rail after a higher one.", ofStale), beginOrder),
		fence("B12", "revoked_authored", Critical, ReadsBoth, "tokens",
			"A token writes nothing after it was revoked.", "the token, and the operator who revoked it"),
		fence("B13", "revoked_still_held", Medium, ReadsLock, "revocations",
			"No lock is held under a token that was revoked.", "the token, and the operator who revoked it"),
		fence("B14", "lock_token_below_used", Critical, ReadsBoth, "locks",
			"Who holds an account's lock has a token at or above the account's fence and mark.", "the lock's token, then the higher one"),
		fence("B15", "zero_or_null_fence", Critical, ReadsPay, "payouts",
			"A leg, and an attempt that may reach the rail, carry a token.", "the token that claims the payout"),
		within(then(fence("B16", "stale_claim", Medium, ReadsBoth, "locks",
			"Who holds an account's lock takes its open payouts over.", "the claim's token, then the lock's"),
			"dlockctl payout show {payout}"), 5*time.Minute),
		then(fence("B18", "revocation_orphan", Medium, ReadsLock, "revocations",
			"No token was revoked that was not issued yet.", rewound), planNext),
		fence("B19", "token_of_another_lock", Critical, ReadsBoth, "tokens",
			"A token that writes for a payer was granted on that payer's lock.", "the token: the holder of another lock"),
		then(fence(journalClass, "revocation_unmatched", Medium, ReadsLock, "revocations",
			"The audit and the journal agree on which grants were taken away.", "nobody: one of the two was written past its guards"), "dlockctl audit verify"),
		fence(postedTwiceClass, "token_posted_twice", Critical, ReadsBoth, "tokens",
			"A token posts one payout of an account.", ofToken),
	}
}

func fenceFamilies() []family {
	return []family{
		{name: "live_locks", reads: ReadsBoth, reread: byAccount, weight: 1, check: compareLiveLocks, classes: []string{"B14", "B16"}},
		{name: "b13_revocation", reads: ReadsLock, reread: never, weight: 1, classes: []string{"B13", "B18", journalClass}, aboveLast: []string{"B18"}},
		// What the walk reads is append-only or only rises, and lockdb's snapshot is the
		// younger: a second look would see the same.
		{
			name: "tokens", reads: ReadsBoth, reread: never, weight: 25, check: walkTokens,
			classes:   []string{"B05", "B06", "B07", "B08", "B09", "B12", foreignLockClass, postedTwiceClass},
			aboveLast: []string{"B06", "B07", "B08", "B09"},
		},
		{name: "b10_rail_mark", reads: ReadsPay, reread: byAccount, weight: 10, classes: []string{"B10", "B11"}},
		{name: "b01_account_fence", reads: ReadsPay, reread: byOwn, weight: 7, classes: []string{"B01", "B02", "B03"}},
		{name: "b04_leg_token", reads: ReadsPay, reread: byPayout, weight: 7, classes: []string{"B04", "B15"}},
	}
}
