package reconcile_test

import (
	"bytes"
	"errors"
	"fmt"
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
		"":                                       "is empty",
		"key,amount_minor\n":                     "line 1: there is no column currency",
		"amount_minor,currency\n":                "neither a column key nor reference",
		"key,key,amount_minor,currency\n":        "the column key is there twice",
		header:                                   "has no line below its header",
		header + "k,r,19.99,EUR,PAID,\n":         `line 2: amount_minor "19.99"`,
		header + "k,r,0,EUR,PAID,\n":             `line 2: amount_minor "0"`,
		header + "k,r,9223372036854775808,EUR,,": `line 2: amount_minor "9223372036854775808"`,
		header + "k,r,5,eur,PAID,\n":             `line 2: currency "eur"`,
		header + "k,r,5,EUR,MAYBE,\n":            `line 2: status "MAYBE"`,
		header + ",,5,EUR,PAID,\n":               "line 2: there is neither a key nor a reference",
		header + "k,r,5,EUR,PAID,yesterday\n":    `line 2: at "yesterday"`,
		header + "k,r,5,EUR,PAID,\nk,r,5\n":      "line 3",
		header + "\"k,r,5,EUR,PAID,\n":           "line 2",
		header + "k\x00,r,5,EUR,PAID,\n":         `line 2: "k\x00" is no text of UTF-8`,
		header + "k,r\xff,5,EUR,PAID,\n":         `line 2: "r\xff" is no text of UTF-8`,
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
