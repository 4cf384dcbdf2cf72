package reconcile

import "time"

// rail is a class of the rail and of the states of a payout.
func rail(id, name string, severity Severity, over, rule, names string) Class {
	return Class{ID: id, Name: name, Severity: severity, Rule: rule, Names: names, Reads: ReadsPay, Over: over, Next: explainIt}
}

func railClasses() []Class {
	const (
		ofAttempt  = "the attempt's token, then the claim's"
		ofAttempts = "the attempts' tokens"
		ofClaim    = "the token that claims the payout"
		show       = "dlockctl payout show {payout}"
		resolve    = "dlockctl payout resolve {payout} --from-rail --reason TEXT"
	)
	then := func(c Class, next string) Class { c.Next = next; return c }
	within := func(c Class, grace time.Duration) Class { c.Grace = grace; return c }
	return []Class{
		within(then(rail("C01", "acked_not_posted", Critical, "attempts",
			"A payout that the rail paid is posted.", ofAttempt), show), 5*time.Minute),
		then(rail("C02", "posted_not_acked", Critical, "payouts",
			"A POSTED payout was paid by the rail: an attempt or a resolution says so.", ofClaim), show),
		then(rail("C03", "rejected_but_posted", Critical, "payouts",
			"No payout is POSTED that the rail refused.", ofAttempt), show),
		within(then(rail("C04", "ambiguous_aged", Critical, "attempts",
			"Whether the rail paid is found out, and never guessed.", ofAttempt), resolve), 15*time.Minute),
		rail("C05", "double_ack", Critical, "payouts",
			"The rail pays a payout once.", ofAttempts),
		rail("C06", "duplicate_rail_reference", Critical, "attempts",
			"One reference of the rail is one payout.", "the tokens of its attempts, the last one first"),
		rail("C07", "ack_without_reference", Medium, "attempts",
			"What the rail paid has the rail's reference.", ofAttempt),
		rail("C08", "submission_mismatch", Critical, "attempts",
			"The rail's key of an attempt is the payout's own.", ofAttempt),
		rail("C09", "second_attempt", Critical, "payouts",
			"A payout has one attempt that may reach the rail, for ever: a retry is a new payout.", "the attempts' tokens, the second one first"),
		rail("C10", "submitted_unclaimed", Critical, "attempts",
			"Who submits a payout has claimed it, and it exists.", "the attempt's token"),
		then(rail("C11", "stuck", Medium, "payouts",
			"A payout is PENDING for at most 24 hours, CLAIMED, or at the rail without an attempt or refused there, for at most one.", ofClaim), show),
		rail("C12", "illegal_state", High, "payouts",
			"A payout is in a state that there is, and its times are in order.", ofClaim),
		then(rail("C13", "paid_not_debited", Critical, "payouts",
			"No payout is FAILED or ABANDONED that the rail paid.", ofAttempts), show),
	}
}

func railFamilies() []family {
	return []family{
		{name: "c02_payout", reads: ReadsPay, reread: byPayout, weight: 7, classes: []string{"C02", "C03", "C05", "C09", "C11", "C12", "C13"}},
		{name: "c01_attempt", reads: ReadsPay, reread: byPayout, weight: 7, classes: []string{"C01", "C04", "C07", "C08"}},
		{name: "c06_reference", reads: ReadsPay, reread: byReference, weight: 7, classes: []string{"C06"}},
		{name: "c10_claim", reads: ReadsPay, reread: byPayout, weight: 3, classes: []string{"C10"}},
	}
}
