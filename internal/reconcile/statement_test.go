package reconcile_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/internal/reconcile"
	"github.com/dlockctl/dlockctl/internal/reconcile/plant"
)

// The rail's list is matched both ways: each break of it is found alone, and the
// nearest list without one is clean.
//
// Clauses: K-7.9, K-8.4
// Mutation: leave a case out of compare, repeated or matchAcked, or near out of S02.
func TestStatements(t *testing.T) {
	t.Parallel()
	for _, major := range pgtest.Majors() {
		w := healthyOf(t, major, plant.Params{Payouts: 900, Accounts: 128, Seed: 7, Open: 2})
		for _, name := range plant.Statements() {
			var text bytes.Buffer
			fault, err := w.Statement(t.Context(), &text, name)
			if err != nil {
				t.Fatal(err)
			}
			statement, err := reconcile.ReadStatement(&text)
			if err != nil {
				t.Fatal(err)
			}
			report := w.run(t, func(o *reconcile.Options) {
				o.Statement = statement
				o.Scope.Rules = []string{"S01", "S02", "S03", "S04", "S05"}
			})
			var faults []plant.Fault
			if fault.Class != "" {
				faults = append(faults, fault)
			}
			t.Logf("%s: %s, %d findings", name, report.Outcome, len(report.Findings))
			checkFound(t, faults, report.Findings)
			checkOutcome(t, report)
		}
	}
}

// What cannot be read is named with its line.
//
// Mutation: take a check out of ReadStatement.
func TestReadStatementRefuses(t *testing.T) {
	t.Parallel()
	const header = "key,reference,amount_minor,currency,status,at\n"
	for text, want := range map[string]string{
		"":                                                     "is empty",
		"key,amount_minor\n":                                   "line 1: there is no column currency",
		"amount_minor,currency\n":                              "neither a column key nor reference",
		"key,key,amount_minor,currency\n":                      "the column key is there twice",
		header:                                                 "has no line below its header",
		header + "k,r,19.99,EUR,PAID,\n":                       `line 2: amount_minor "19.99"`,
		header + "k,r,0,EUR,PAID,\n":                           `line 2: amount_minor "0"`,
		header + "k,r,9223372036854775808,EUR,,":               `line 2: amount_minor "9223372036854775808"`,
		header + "k,r,5,eur,PAID,\n":                           `line 2: currency "eur"`,
		header + "k,r,5,EUR,MAYBE,\n":                          `line 2: status "MAYBE"`,
		header + ",,5,EUR,PAID,\n":                             "line 2: there is neither a key nor a reference",
		header + "k,r,5,EUR,PAID,yesterday\n":                  `line 2: at "yesterday"`,
		header + "k,r,5,EUR,PAID,\nk,r,5\n":                    "line 3",
		header + "\"k,r,5,EUR,PAID,\n":                         "line 2",
		header + "k\x00,r,5,EUR,PAID,\n":                       `line 2: "k\x00" is no text of UTF-8`,
		header + "k,r\xff,5,EUR,PAID,\n":                       `line 2: "r\xff" is no text of UTF-8`,
		header + "k,r,5," + strings.Repeat("E", 5000) + ",,\n": `line 2: currency "` + strings.Repeat("E", 60) + `"… is not`,
		header + "k,r,5,EUR,,2026-11-29T17:30:00Z\nl,s,5,EUR,REJECTED,\nm,t,5,EUR,,\n": "line 4: of lines 2 and 4 only one has a time",
		header + "k,r,5,EUR,,\nm,t,5,EUR,REJECTED,2026-11-29T17:30:00Z\n":              "line 3: of lines 2 and 3 only one has a time",
	} {
		_, err := reconcile.ReadStatement(strings.NewReader(text))
		var refused *reconcile.StatementError
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), want) || refused.Hint() == "" {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if _, err := reconcile.ReadStatement(strings.NewReader("\uFEFFCurrency, Amount_Minor ,key,note\nEUR,5,k,x\n")); err != nil {
		t.Errorf("other order, a byte order mark and a further column: %v", err)
	}
	if _, err := reconcile.ReadStatement(strings.NewReader("\uFEFF\"currency\",\"amount_minor\",\"key\"\n\"EUR\",\"5\",\"k\"\n")); err != nil {
		t.Errorf("quotes after a byte order mark: %v", err)
	}
}

// A statement that is too large is refused before it is in memory, with the line: a
// field that goes on and on, a quote that is never closed, and more lines than can be
// matched, which a file is told by without any of it being read as CSV.
//
// Mutation: give the csv.Reader the text itself, drop the limit of lines from
// recordReader or from countLines, or count no blank line.
func TestStatementIsBounded(t *testing.T) {
	t.Parallel()
	const (
		header = "key,amount_minor,currency\n"
		line   = "k,5,EUR\n"
		lines  = 1_000_000
	)
	for name, tc := range map[string]struct {
		parts []string
		want  string
		most  int // bytes that may be read
	}{
		"a field of 50 MB":        {[]string{header, line, "\n\n", "k,5,", strings.Repeat("E", 50<<20), "\n"}, "line 5: what begins there is longer than 65536 bytes", 80 << 10},
		"a header of 50 MB":       {[]string{"key,", strings.Repeat("E", 50<<20), "\n"}, "line 1: what begins there is longer", 80 << 10},
		"a quote that stays open": {[]string{header, line, "\"k,5,EUR\n", strings.Repeat(line, lines)}, "line 3: what begins there is longer than 65536 bytes", 80 << 10},
		"a million and one lines": {[]string{header, strings.Repeat(line, lines), "bad\n"}, "line 1000002: there are more than 1000000 lines below the header", len(header) + len(line)*lines + 80<<10},
		"blank lines":             {[]string{header, strings.Repeat("\n", 50<<20)}, "line 1000002: there are more than 1000000 lines", lines + 80<<10},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var readers []io.Reader
			for _, part := range tc.parts {
				readers = append(readers, strings.NewReader(part))
			}
			counted := &counting{from: io.MultiReader(readers...)}
			_, err := reconcile.ReadStatement(counted)
			var refused *reconcile.StatementError
			if !errors.As(err, &refused) || !strings.Contains(err.Error(), tc.want) || refused.Hint() == "" {
				t.Errorf("%v, want %q", err, tc.want)
			}
			if counted.read > tc.most {
				t.Errorf("%d bytes were read before it was refused, of %d that may be", counted.read, tc.most)
			}
		})
	}
	// A file is refused although its first line would be: nothing of it was parsed.
	file := strings.NewReader("none\n" + strings.Repeat(line, lines+1))
	if _, err := reconcile.ReadStatement(file); err == nil || !strings.Contains(err.Error(), "line 1000002: ") {
		t.Errorf("a file: %v", err)
	}
	// As many as it may have, and no new line at the end.
	file = strings.NewReader(header + strings.Repeat(line, lines-1) + "k,5,EUR")
	if _, err := reconcile.ReadStatement(file); err != nil {
		t.Errorf("a million lines: %v", err)
	}
}

// counting counts what is read from it.
type counting struct {
	from io.Reader
	read int
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.read += n
	return n, err
}

// Whatever stands in a file, it is a statement or is refused in words that say where.
func FuzzReadStatement(f *testing.F) {
	const header = "\uFEFFkey,reference,amount_minor,currency,status,at\n"
	for _, seed := range []string{
		"", header, header + "k,r,5,EUR,PAID,2026-11-29T17:30:00Z\n", header + "\"k\n\",,5,EUR,,\r\n\r\n,r,6,USD,REJECTED,\n", header + "\"k", "key,\"",
		"currency,amount_minor,key,x\nEUR,9223372036854775807,k,\x00\n", strings.Repeat("x", 70_000),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		_, err := reconcile.ReadStatement(bytes.NewReader(text))
		var refused *reconcile.StatementError
		if err != nil && (!errors.As(err, &refused) || refused.Hint() == "" || len(err.Error()) > 1000) {
			t.Errorf("%q: %v", text, err)
		}
		// From a pipe it is the same.
		_, piped := reconcile.ReadStatement(&counting{from: bytes.NewReader(text)})
		if fmt.Sprint(piped) != fmt.Sprint(err) {
			t.Errorf("%q: %v from a file, %v from a pipe", text, err, piped)
		}
	})
}

// What an operator resolved as paid is held to the statement as what the rail acknowledged
// is: listed, it is no break, and not listed, it is. When the rail paid what was taken down
// afterwards nobody knows.
//
// Clauses: K-5.3, K-7.9
// Mutation: leave resolved out of compare, or either half of paid or afterwards out of
// statement_acked.sql.
func TestStatementOfWhatWasResolved(t *testing.T) {
	t.Parallel()
	w := healthy(t, pgtest.Majors()[0])
	exec(t, w.pay, loose)
	scene := w.scenes(t, 1)[0]
	const (
		timed   = `to_char(s.submitted_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`
		without = `AND p.payout_id <> '$P'`
	)
	exec(t, w.pay, scene.Replace(`UPDATE rail_submission SET outcome = 'TIMEOUT', rail_reference = NULL WHERE payout_id = '$P';
		INSERT INTO payout_resolution (payout_id, source, verdict, evidence, operator, reason, recorded_at)
		SELECT payout_id, 'operator', 'PAID', '{"page": 3}', 'oncall', 'asked', resolved_at + interval '1 h' FROM rail_submission WHERE payout_id = '$P'`))
	run := func(at, where string) []reconcile.Finding {
		t.Helper()
		var text strings.Builder
		text.WriteString("reference,key,amount_minor,currency,at,status\n")
		if at == timed { // nothing is near its ends
			text.WriteString(",a,5,EUR,2020-01-01T00:00:00Z,REJECTED\n,b,5,EUR,2040-01-01T00:00:00Z,REJECTED\n")
		}
		list := `SELECT coalesce(s.rail_reference, 'R-' || p.payout_id), p.idempotency_key, p.amount_minor, p.currency, ` + at + `, 'PAID'
			FROM payout p LEFT JOIN rail_submission s ON s.payout_id = p.payout_id AND s.outcome IN ('ACKED', 'TIMEOUT') WHERE (s.outcome = 'ACKED' OR p.payout_id = '$P') ` + where
		if _, err := w.pay.PgConn().CopyTo(t.Context(), &text, `COPY (`+scene.Replace(list)+`) TO STDOUT (FORMAT csv)`); err != nil {
			t.Fatal(err)
		}
		statement, err := reconcile.ReadStatement(strings.NewReader(text.String()))
		if err != nil {
			t.Fatal(err)
		}
		report := w.run(t, rules("S01", "S02", "S03", "S04", "S05"), func(o *reconcile.Options) { o.Statement = statement })
		return report.Findings
	}
	if found := run(timed, ""); len(found) > 0 {
		t.Errorf("what is listed: %+v", found)
	}
	for _, at := range []string{timed, "''"} {
		found := run(at, without)
		if len(found) != 1 || found[0].Class != "S02" || found[0].PayoutID != scene.Replace("$P") || !strings.Contains(found[0].What, "was resolved as paid here") {
			t.Errorf("what is not listed: %+v", found)
		}
	}
	// Taken down after a restore: paid at a time that no row has.
	exec(t, w.pay, scene.Replace(`UPDATE rail_submission SET outcome = 'ACKED', rail_reference = 'R-$P' WHERE payout_id = '$P';
		UPDATE payout_resolution SET recorded_at = (SELECT submitted_at - interval '1 min' FROM rail_submission WHERE payout_id = '$P') WHERE payout_id = '$P'`))
	if found := run(timed, without); len(found) > 0 {
		t.Errorf("what was taken down afterwards: %+v", found)
	}
	if found := run("''", without); len(found) != 1 || found[0].Class != "S02" {
		t.Errorf("what was taken down afterwards, and is not on the whole list: %+v", found)
	}
	exec(t, w.pay, scene.Replace(`DELETE FROM rail_submission WHERE payout_id = '$P'`))
	if found := run("''", without); len(found) != 1 || found[0].Class != "S02" || found[0].Subject != "" {
		t.Errorf("without an attempt: %+v", found)
	}
}

// Times say what has to be listed, and the report says what was not looked for.
//
// Mutation: leave span out of begin.
func TestStatementSaysItsSpan(t *testing.T) {
	t.Parallel()
	w := seeded(t, pgtest.Majors()[0])
	statement, err := reconcile.ReadStatement(strings.NewReader("key,amount_minor,currency,status,at\nk,5,EUR,REJECTED,2026-11-29T17:30:00Z\nl,5,EUR,REJECTED,2026-11-28T18:30:00+01:00\n"))
	if err != nil {
		t.Fatal(err)
	}
	report := w.run(t, rules("S02"), func(o *reconcile.Options) { o.Statement = statement })
	if len(report.Notes) != 1 || !strings.Contains(report.Notes[0], "is of 2026-11-28T17:30:00Z to 2026-11-29T17:30:00Z: what was paid before or after, as paydb has it, was not looked for") {
		t.Errorf("%q", report.Notes)
	}
}

// One line of the rail's lists one payment: with the key of one payout and the
// reference of another it lists the first, and not under the reference that it has.
//
// Clauses: K-8.4
// Mutation: match by the references of lines with a key too, or leave the reference
// out of compare.
func TestOneLineListsOnePayout(t *testing.T) {
	t.Parallel()
	w := healthy(t, 16)
	var text strings.Builder
	text.WriteString("reference,key,amount_minor,currency\n")
	rows, err := w.pay.Query(t.Context(), `SELECT s.rail_reference, p.idempotency_key, p.amount_minor, p.currency::text, p.payout_id::text
		  FROM payout p JOIN rail_submission s USING (payout_id) WHERE s.outcome = 'ACKED' ORDER BY p.idempotency_key`)
	if err != nil {
		t.Fatal(err)
	}
	type payment struct {
		Reference, Key string
		Amount         int64
		Currency       string
		Payout         string
	}
	paid, err := pgx.CollectRows(rows, pgx.RowToStructByPos[payment])
	if err != nil {
		t.Fatal(err)
	}
	first, second := paid[0], paid[1]
	paid[1].Key, paid[1].Amount, paid[1].Currency = first.Key, first.Amount, first.Currency
	for _, p := range paid[1:] { // the first one's own line is left out
		fmt.Fprintf(&text, "%s,%s,%d,%s\n", p.Reference, p.Key, p.Amount, p.Currency)
	}
	statement, err := reconcile.ReadStatement(strings.NewReader(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	report := w.run(t, rules("S01", "S02", "S03", "S04", "S05"), func(o *reconcile.Options) { o.Statement = statement })
	var got []string
	for _, f := range report.Findings {
		got = append(got, f.Class+" "+f.PayoutID)
	}
	if diff := cmp.Diff([]string{"S02 " + second.Payout, "S03 " + first.Payout}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// Paid in another currency than the payout's, it is told to who asks for either.
	other := map[bool]string{true: "USD", false: "EUR"}[first.Currency == "EUR"]
	line := fmt.Sprintf("key,amount_minor,currency\n%s,%d,%s\n", first.Key, first.Amount, other)
	if statement, err = reconcile.ReadStatement(strings.NewReader(line)); err != nil {
		t.Fatal(err)
	}
	for _, currency := range []string{first.Currency, other} {
		report := w.run(t, rules("S03"), func(o *reconcile.Options) { o.Statement, o.Scope.Currencies = statement, []string{currency} })
		if got := classes(report.Findings); len(got) != 1 || report.Findings[0].PayoutID != first.Payout {
			t.Errorf("paid in %s instead of %s, asked for %s: %v", other, first.Currency, currency, got)
		}
	}
}

// A line without a payout belongs to no account: a run of some accounts says that it did
// not look for such lines, and is not complete when it was asked to.
//
// Clauses: K-8.5
// Mutation: take ofNoAccount from the family, or out of jobs.
func TestStatementOfOneAccount(t *testing.T) {
	t.Parallel()
	w := seeded(t, pgtest.Majors()[0])
	statement, err := reconcile.ReadStatement(strings.NewReader("key,amount_minor,currency\nnobody-knows,5,EUR\n"))
	if err != nil {
		t.Fatal(err)
	}
	ofAccount := func(rules ...string) func(*reconcile.Options) {
		return func(o *reconcile.Options) {
			o.Statement, o.Scope = statement, reconcile.Scope{Accounts: []string{payer}, Rules: rules}
		}
	}
	report := w.run(t, ofAccount())
	if report.Outcome != reconcile.Clean || !skipped(report, "S01", "belongs to no account") || skipped(report, "S02", "") {
		t.Errorf("one account: %s, %+v", report.Outcome, report.Coverage)
	}
	if report = w.run(t, ofAccount("S01", "S02")); report.Outcome != reconcile.Incomplete || !missing(report, "S01 was not checked") {
		t.Errorf("one account, asked for S01: %s, %+v", report.Outcome, report.Missing)
	}
	report = w.run(t, rules("S01"), func(o *reconcile.Options) { o.Statement = statement })
	if got := classes(report.Findings); len(got) != 1 || got[0] != "S01" {
		t.Errorf("all accounts: %v", got)
	}
}

// skipped tells that the class was left out, for a reason that says so.
func skipped(r reconcile.Report, class, reason string) bool {
	return slices.ContainsFunc(r.Coverage, func(c reconcile.Coverage) bool {
		return c.Class == class && c.Skipped != "" && strings.Contains(c.Skipped, reason)
	})
}
