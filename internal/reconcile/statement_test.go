package reconcile_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

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
}
