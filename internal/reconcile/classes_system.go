package reconcile

const (
	// guardsClass is D05, historyClass D07: what the rules stand on.
	guardsClass  = "D05"
	historyClass = "D07"
)

// system is a class of the two databases as a whole.
func system(id, name string, severity Severity, reads Reads, over, rule, names, next string) Class {
	return Class{ID: id, Name: name, Severity: severity, Rule: rule, Names: names, Reads: reads, Over: over, Next: next}
}

func systemClasses() []Class {
	const (
		owner  = "nobody: whoever owns the schema"
		nobody = "nobody"
		doctor = "dlockctl doctor"
	)
	return []Class{
		system("D02", "sequence_unsafe", Medium, ReadsLock, "databases",
			"Tokens come from a sequence with CACHE 1, NO CYCLE, INCREMENT 1, of type bigint, logged.", owner, doctor),
		system("D03", "restore_suspected", Medium, ReadsBoth, "databases",
			"Each database is the instance, on the timeline, that its gate was opened on.", nobody, "dlockctl restore plan"),
		system(guardsClass, "constraint_missing", Medium, ReadsBoth, "objects",
			"Every constraint, unique index, foreign key and trigger of the migrations stands, is valid and fires.", owner, doctor),
		system("D06", "clock_skew", Low, ReadsBoth, "databases",
			"The clocks of the two databases differ by no more than five seconds.", nobody, doctor),
		system(historyClass, "schema_unknown", Medium, ReadsBoth, "databases",
			"The schema history of each database is the one that the rules were written for.", owner, "dlockctl migrate status"),
		system(CoverageClass, "coverage_incomplete", Medium, ReadsBoth, "databases",
			"Everything in scope could be read, to the end, and there was something to read.", nobody, doctor),
		system(historyMovedClass, "migration_in_flight", Low, ReadsBoth, "databases",
			"The schema history is the same at the end of a run as at its beginning.", nobody, "dlockctl migrate status"),
	}
}

// systemFamilies read no rows of money. Nothing of them is looked at twice: where they
// change during a run, that is a migration, which is D09.
func systemFamilies() []family {
	var all []family
	for _, database := range []string{payDB, lockDB} {
		reads := ReadsPay
		if database == lockDB {
			reads = ReadsLock
		}
		all = append(all,
			family{name: "guards of " + database, reads: reads, reread: never, classes: []string{guardsClass}, check: guardsOf(database)},
			family{name: "history of " + database, reads: reads, reread: never, classes: []string{historyClass}, check: historyOf(database)})
	}
	return append(all,
		family{name: "pay_gate", reads: ReadsPay, reread: never, classes: []string{"D03"}},
		family{name: "lock_gate", reads: ReadsLock, reread: never, classes: []string{"D03"}},
		family{name: "sequence", reads: ReadsLock, reread: never, classes: []string{"D02"}},
		family{name: "clocks", reads: ReadsBoth, reread: never, classes: []string{"D06"}, check: compareClocks},
	)
}
