package reconcile_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/internal/reconcile"
)

// seal seals a clean run, and returns what was written.
func (w world) seal(t *testing.T, change ...func(*reconcile.Options)) string {
	t.Helper()
	var text bytes.Buffer
	report := w.run(t, append(change, func(o *reconcile.Options) { o.Seal = &reconcile.Sealing{To: &text, By: "erin@ops"} })...)
	if report.Outcome != reconcile.Clean || !report.Sealed {
		t.Fatalf("%s, sealed %t: %+v %v", report.Outcome, report.Sealed, report.Findings, report.Notes)
	}
	return text.String()
}

func since(t *testing.T, seal string) func(*reconcile.Options) {
	t.Helper()
	p, err := reconcile.ReadPrevious(strings.NewReader(seal), true)
	if err != nil {
		t.Fatal(err)
	}
	return func(o *reconcile.Options) { o.Previous = p }
}

// What changed since a sealed run is found by a run that looks at what was written
// since: those classes that need an earlier run, and those that any run decides.
//
// Clauses: K-8.1, K-8.4
// Mutation: leave a family out of previousFamilies, or the open payouts out of
// since_touched.sql.
func TestSinceASeal(t *testing.T) {
	t.Parallel()
	for _, variant := range []string{"A03", "C14", "D01", "D04", "D10", "A01", "A06", "A13", "B01", "C08"} {
		t.Run(variant, func(t *testing.T) {
			t.Parallel()
			for _, major := range pgtest.Majors() {
				w := healthy(t, major)
				earlier := since(t, w.seal(t))
				if report := w.run(t, earlier); report.Outcome != reconcile.Clean || len(report.Notes) == 0 || !strings.Contains(report.Notes[0], "payouts were looked at") {
					t.Fatalf("nothing has changed, and the run is %s: %+v %v", report.Outcome, report.Findings, report.Notes)
				}
				fault, err := w.Plant(t.Context(), variant)
				if err != nil {
					t.Fatal(err)
				}
				report := w.run(t, earlier)
				if !slices.ContainsFunc(report.Findings, func(f reconcile.Finding) bool { return f.Class == fault.Class && names(f, fault) }) {
					t.Errorf("PostgreSQL %d: %+v was not found among %v", major, fault, classes(report.Findings))
				}
			}
		})
	}
}

// A sealed leg that is gone leaves no trace; within as many runs as there are buckets
// it is found all the same.
//
// Mutation: digest the same bucket each time, or leave Runs out of the seal.
func TestARemovedLegIsFoundWithinTheBuckets(t *testing.T) {
	t.Parallel()
	w := healthy(t, 16)
	seal := w.seal(t)
	if _, err := w.Plant(t.Context(), "D10-removed"); err != nil {
		t.Fatal(err)
	}
	for run := 1; run <= reconcile.SealBuckets; run++ {
		p, err := reconcile.ReadPrevious(strings.NewReader(seal), true)
		if err != nil {
			t.Fatal(err)
		}
		p.Runs = run - 1
		report := w.run(t, func(o *reconcile.Options) { o.Previous = p; o.Scope.Rules = []string{"D10"} })
		if i := slices.IndexFunc(report.Findings, func(f reconcile.Finding) bool { return f.Class == "D10" }); i >= 0 {
			if !strings.Contains(report.Findings[i].What, "was removed or changed") {
				t.Errorf("run %d: %s", run, report.Findings[i].What)
			}
			return
		}
	}
	t.Errorf("a removed leg was not found within %d runs", reconcile.SealBuckets)
}

// The same, when each run goes on from the seal of the one before, as they are meant
// to be used: a seal vouches for the legs that its run did not look at with what the
// seals before it say of them.
//
// Mutation: leave carry out of seal.
func TestARemovedLegIsFoundInAChainOfSeals(t *testing.T) {
	t.Parallel()
	w := healthy(t, 16)
	seal := w.seal(t)
	exec(t, w.pay, loose)
	// Both legs, and both balances: all that is left agrees.
	exec(t, w.pay, `CREATE TEMP TABLE gone AS SELECT payout_id FROM payout WHERE state = 'POSTED' ORDER BY claim_token LIMIT 1;
		UPDATE account a SET balance_minor = balance_minor + CASE direction WHEN 'DEBIT' THEN amount_minor ELSE -amount_minor END
		  FROM ledger_entry l WHERE l.payout_id IN (TABLE gone) AND l.account_id = a.account_id;
		DELETE FROM ledger_entry WHERE payout_id IN (TABLE gone)`)
	exec(t, w.pay, tight)
	for range reconcile.SealBuckets {
		var text bytes.Buffer
		report := w.run(t, since(t, seal), func(o *reconcile.Options) { o.Seal = &reconcile.Sealing{To: &text, By: "erin@ops"} })
		if slices.Contains(classes(report.Findings), "D10") {
			return
		}
		if !report.Sealed {
			t.Fatalf("%s: %+v %v", report.Outcome, report.Findings, report.Notes)
		}
		seal = text.String()
	}
	t.Errorf("a removed posting was not found by %d runs, each on the seal of the one before", reconcile.SealBuckets)
}

// tight lets the triggers fire again that loose took out: all of them do always.
const tight = `DO $$ DECLARE g record; BEGIN
	FOR g IN SELECT tgrelid::regclass AS of, tgname FROM pg_trigger JOIN pg_class c ON c.oid = tgrelid WHERE c.relnamespace = current_schema()::regnamespace AND NOT tgisinternal LOOP
		EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER %I', g.of, g.tgname);
	END LOOP;
	FOR g IN SELECT DISTINCT tgrelid::regclass AS of, tgname FROM pg_trigger JOIN pg_class c ON c.oid = tgrelid WHERE c.relnamespace = current_schema()::regnamespace AND tgisinternal LOOP
		EXECUTE format('ALTER TABLE %s ENABLE TRIGGER %I', g.of, g.tgname);
	END LOOP; END $$;`

// Transaction numbers mean something in one life of one database: a seal of another
// narrows nothing, and convicts no leg.
//
// Mutation: leave a condition out of comparable, or sealed out of jobs.
func TestASealOfAnotherLife(t *testing.T) {
	t.Parallel()
	w := healthy(t, 16)
	seal := w.seal(t)
	for name, other := range map[string]string{
		"instance": resealed(t, seal, `"system_identifier":7`, `"system_identifier":6`),
		"timeline": resealed(t, seal, `"timeline":`, `"timeline":1`),
		"standby":  resealed(t, seal, `"timeline":1`, `"timeline":0`),
		"database": resealed(t, seal, `"database":"`, `"database":"other_`),
	} {
		// A seal in whose eyes every transaction came later.
		report := w.run(t, since(t, resealed(t, other, `"snapshot":"`, `"snapshot":"1:1:","was":"`)))
		if report.Outcome != reconcile.Clean || !slices.ContainsFunc(report.Notes, func(n string) bool { return strings.Contains(n, "everything was read") }) {
			t.Errorf("another %s: %s, %v, %q", name, report.Outcome, classes(report.Findings), report.Notes)
		}
		i := slices.IndexFunc(report.Coverage, func(c reconcile.Coverage) bool { return c.Class == "D10" })
		if report.Coverage[i].Skipped == "" {
			t.Errorf("another %s: D10 is said to be checked", name)
		}
	}
}

// What a run did not look at is not sealed.
//
// Mutation: leave the scope out of sealUp.
func TestAPartIsNotSealed(t *testing.T) {
	t.Parallel()
	w := seeded(t, 16)
	for name, scope := range map[string]reconcile.Scope{
		"a rule": {Rules: []string{"A02"}}, "an account": {Accounts: []string{payer}}, "a currency": {Currencies: []string{"EUR"}},
	} {
		var text bytes.Buffer
		report := w.run(t, func(o *reconcile.Options) {
			o.Scope, o.Seal = scope, &reconcile.Sealing{To: &text, By: "erin@ops"}
		})
		if report.Outcome != reconcile.Clean || report.Sealed || text.Len() > 0 || !slices.Contains(report.Notes, "nothing was sealed: the run looked at a part only") {
			t.Errorf("%s: %s, sealed %t, %q", name, report.Outcome, report.Sealed, report.Notes)
		}
	}
}

// A seal is taken of a clean run only, and counts its predecessors; a baseline of any.
//
// Mutation: seal whatever the outcome, or leave Baseline out of ReadPrevious.
func TestWhatIsSealed(t *testing.T) {
	t.Parallel()
	w := healthy(t, 16)
	first := w.seal(t)
	second, err := reconcile.ReadPrevious(strings.NewReader(w.seal(t, since(t, first))), true)
	if err != nil {
		t.Fatal(err)
	}
	if second.Runs != 1 || second.By != "erin@ops" || second.Outcome != reconcile.Clean {
		t.Errorf("the second seal: runs %d, by %q, outcome %s", second.Runs, second.By, second.Outcome)
	}
	fault, err := w.Plant(t.Context(), "A02")
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	report := w.run(t, func(o *reconcile.Options) { o.Seal = &reconcile.Sealing{To: &text} })
	if report.Sealed || text.Len() > 0 {
		t.Errorf("a run that is %s was sealed", report.Outcome)
	}
	report = w.run(t, func(o *reconcile.Options) { o.Seal = &reconcile.Sealing{To: &text, By: "erin@ops", Baseline: true} })
	if !report.Sealed {
		t.Fatalf("no baseline: %v", report.Notes)
	}
	if _, err := reconcile.ReadPrevious(strings.NewReader(text.String()), true); !refused(err, "is a baseline of a run that was INCOMPLETE") {
		t.Errorf("--since a baseline of a run that was not clean: %v", err)
	}
	p, err := reconcile.ReadPrevious(strings.NewReader(text.String()), false)
	if err != nil {
		t.Fatal(err)
	}
	report = w.run(t, func(o *reconcile.Options) { o.Previous = p })
	if report.Outcome != reconcile.Clean {
		t.Errorf("with a baseline that anchors account %s: %s, %v", fault.AccountID, report.Outcome, classes(report.Findings))
	}
}

// A seal that is not as it was written is refused.
//
// Mutation: leave the digest out of whole, or a condition out of sound, or read lines of
// any length.
func TestAnEditedSealIsRefused(t *testing.T) {
	t.Parallel()
	w := healthy(t, 16)
	seal := w.seal(t)
	lines := strings.SplitAfter(seal, "\n")
	for name, c := range map[string]struct{ text, want string }{
		"edited":      {strings.Replace(seal, `"opening_minor":"`, `"opening_minor":"1`, 1), "its digest differs"},
		"a line out":  {strings.Join(append(slices.Clone(lines[:1]), lines[2:]...), ""), "its digest differs"},
		"cut off":     {strings.Join(lines[:len(lines)-2], ""), "is cut off"},
		"no seal":     {"{}\n", "is none"},
		"empty":       {"", "is cut off"},
		"newer":       {strings.Replace(seal, `"version":1`, `"version":2`, 1), "has version 2"},
		"garbage":     {lines[0] + "garbage\n", "line 2 cannot be read"},
		"a long line": {lines[0] + strings.Repeat(" ", 50<<20) + "\n", "line 2 cannot be read"},
		// With a digest that is right again, for it keeps nobody from making one.
		"buckets":  {resealed(t, seal, `"buckets":[`, `"none":[`), "line 1 cannot be read"},
		"runs":     {resealed(t, seal, `"runs":0`, `"runs":-1`), "line 1 cannot be read"},
		"snapshot": {resealed(t, seal, `"snapshot":"`, `"snapshot":"x:`), "line 1 cannot be read"},
		"outcome":  {resealed(t, seal, `"outcome":"CLEAN"`, `"outcome":"BREAKS"`), "is of a run that was BREAKS"},
	} {
		if _, err := reconcile.ReadPrevious(strings.NewReader(c.text), true); !refused(err, c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// Whatever stands in a file, it is a seal or is refused with what to do.
func FuzzReadPrevious(f *testing.F) {
	const header = `{"kind":"dlockctl-seal","version":1,"runs":0,"snapshot":"1:2:","buckets":[]}`
	for _, seed := range []string{"", "{}\n", header + "\n", header + "\n" + `{"finals":"AAAA"}` + "\n", header + "\n" + `{"sha256":"x","accounts":0,"finals":0}` + "\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if _, err := reconcile.ReadPrevious(bytes.NewReader(text), false); err != nil && !refused(err, "") {
			t.Errorf("%q: %v", text, err)
		}
	})
}

// resealed is a seal that somebody edited, and gave the digest that belongs to it.
func resealed(t *testing.T, seal, old, text string) string {
	t.Helper()
	lines := strings.SplitAfter(seal, "\n")
	body := strings.Replace(strings.Join(lines[:len(lines)-2], ""), old, text, 1)
	end := lines[len(lines)-2]
	at := strings.Index(end, `"sha256":"`) + len(`"sha256":"`)
	if body == strings.Join(lines[:len(lines)-2], "") || at < len(`"sha256":"`) {
		t.Fatalf("%s is not in the seal", old)
	}
	sum := sha256.Sum256([]byte(body))
	return body + end[:at] + hex.EncodeToString(sum[:]) + end[at+hex.EncodedLen(sha256.Size):]
}

func refused(err error, want string) bool {
	sealErr, ok := errors.AsType[*reconcile.SealError](err)
	return ok && strings.Contains(err.Error(), want) && sealErr.Hint() != ""
}

// Two reports are told apart by the ids of their findings, which have to be of one form.
//
// Mutation: compare by class, or leave the length of the ids out of notComparable.
func TestDiff(t *testing.T) {
	t.Parallel()
	f := func(digit string) reconcile.Finding {
		return reconcile.Finding{Class: "A01", ID: "A01-" + strings.Repeat(digit, 16)}
	}
	older := reconcile.Report{RunID: "1", Findings: []reconcile.Finding{f("a"), f("b")}}
	newer := reconcile.Report{RunID: "2", Findings: []reconcile.Finding{f("b"), f("c")}}
	got := reconcile.Diff(older, newer)
	want := reconcile.Difference{OldRun: "1", NewRun: "2", Comparable: true, Why: []string{}, New: []reconcile.Finding{f("c")}, Still: []reconcile.Finding{f("b")}, Gone: []reconcile.Finding{f("a")}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	older.Findings[0].ID = "A01-0123456789"
	if got = reconcile.Diff(older, newer); got.Comparable || !strings.Contains(strings.Join(got.Why, ""), "of another version") {
		t.Errorf("a report of other ids: %+v", got.Why)
	}
}

// What the newer run left out is not gone.
//
// Mutation: leave narrower, or the database, out of notComparable.
func TestDiffOfAnotherScope(t *testing.T) {
	t.Parallel()
	report := func(database string, scope reconcile.Scope) reconcile.Report {
		return reconcile.Report{Scope: scope, Pay: reconcile.Snapshot{SystemIdentifier: 7, Database: database}}
	}
	whole, eur := report("pay", reconcile.Scope{}), report("pay", reconcile.Scope{Currencies: []string{"EUR"}})
	one, two := report("pay", reconcile.Scope{Accounts: []string{"a"}}), report("pay", reconcile.Scope{Accounts: []string{"a", "b"}})
	for _, c := range []struct {
		older, newer reconcile.Report
		why          string
	}{
		{whole, whole, ""},
		{eur, whole, ""},
		{eur, eur, ""},
		{one, two, ""},
		{whole, eur, "the newer run looked at the currencies EUR only"},
		{two, one, "the newer run looked at the accounts a only"},
		{whole, report("other", reconcile.Scope{}), "they read different databases"},
	} {
		d := reconcile.Diff(c.older, c.newer)
		if why := strings.Join(d.Why, "; "); why != c.why || d.Comparable != (why == "") {
			t.Errorf("%+v and %+v: comparable %t, %q, want %q", c.older.Scope, c.newer.Scope, d.Comparable, why, c.why)
		}
	}
}
