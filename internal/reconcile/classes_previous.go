package reconcile

func previousClasses() []Class {
	previous := func(id, name string, severity Severity, over, rule, names, next string) Class {
		return Class{ID: id, Name: name, Severity: severity, Rule: rule, Names: names, Reads: ReadsPrevious, Over: over, Next: next}
	}
	return []Class{
		previous("A03", "opening_changed", High, "accounts",
			"An account opened with what the earlier run knows.", "nobody: an opening has no token", explainIt+" --since FILE"),
		previous("C14", "final_state_changed", Critical, "payouts",
			"A payout that was POSTED, FAILED or ABANDONED stays so.", "the token that claims the payout", "dlockctl payout show {payout}"),
		previous("D01", "sequence_regressed", Critical, "databases",
			"The last token issued is not below that of the earlier run.", "a restore or a setval", "dlockctl restore plan"),
		previous("D04", "paydb_behind", Critical, "databases",
			"The highest fence, mark and claim are not below those of the earlier run.", "a restore of paydb", "dlockctl restore plan"),
		previous("D10", "sealed_leg_changed", Critical, "legs",
			"A leg of before the seal is as it was.", "the token on the leg", explainIt+" --since FILE"),
	}
}

func previousFamilies(p *Previous) []family {
	if p == nil {
		return nil
	}
	return []family{
		{name: "openings", classes: []string{"A03"}, reads: ReadsPay, check: p.openings, reread: whole, weight: 3},
		{name: "finals", classes: []string{"C14"}, reads: ReadsPay, check: p.finalStates, reread: byPayout, weight: 3},
		{name: "highest", classes: []string{"D01", "D04"}, reads: ReadsBoth, check: p.highest, aboveLast: []string{"D01"}, reread: whole},
		{name: "sealed legs", classes: []string{"D10"}, reads: ReadsPay, check: p.sealedLegs, reread: whole, weight: 5, sealed: true},
	}
}
