package reconcile

func statementClasses() []Class {
	const (
		ofAttempt = "the attempt's token"
		show      = "dlockctl payout show {payout}"
	)
	rail := func(id, name, rule, names, next string) Class {
		return Class{ID: id, Name: name, Severity: Critical, Rule: rule, Names: names, Reads: ReadsStatement, Over: "statement lines", Next: next}
	}
	missing := rail("S02", "acked_not_on_statement",
		"What the rail acknowledged here, or was resolved as paid, is on its statement.", ofAttempt, show)
	missing.Grace = statementEdge
	return []Class{
		rail("S01", "paid_without_payout",
			"What the rail paid has a payout.", "nobody", "dlockctl payout list --idempotency-key KEY"),
		missing,
		rail("S03", "paid_otherwise",
			"The rail paid the payout's amount, in its currency, under the reference that it gave.", ofAttempt, show),
		rail("S04", "listed_twice",
			"A key and a reference stand on the statement once.", ofAttempt, explainIt+" --rail-statement FILE"),
		rail("S05", "paid_not_acked",
			"What the rail paid is acknowledged here, or resolved as paid.", ofAttempt, show),
	}
}

func statementFamilies(s *Statement) []family {
	if s == nil {
		return nil
	}
	return []family{{
		name: "statement", classes: []string{"S01", "S02", "S03", "S04", "S05"}, ofNoAccount: []string{"S01"},
		reads: ReadsPay, check: s.match, reread: whole, weight: 5,
	}}
}
