package paystore_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dlockctl/dlockctl/internal/paystore"
)

var update = flag.Bool("update", false, "write docs/payouts.md anew")

const document = "../../docs/payouts.md"

// docs/payouts.md is the table, and nothing has drifted. Write it anew with
//
//	go test ./internal/paystore -run Document -update
//
// Clauses: K-5.1
// Mutation: change a row of Transitions, or a word of the page.
func TestDocument(t *testing.T) {
	t.Parallel()
	want := render()
	if *update {
		if err := os.WriteFile(document, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("docs/payouts.md has drifted; write it anew with -update (-table +page):\n%s", diff)
	}
}

func render() string {
	var b strings.Builder
	b.WriteString(`<!-- Generated from internal/paystore/transition.go by its test: go test ./internal/paystore -run Document -update -->

# How a payout moves

` + "```" + `
PENDING ─claim→ CLAIMED ─submit→ RAIL_SUBMITTED ─┬ack→ RAIL_ACKED ─post→ POSTED
   ↑               │ release  └reject→ FAILED    ├reject→ FAILED   └reject→ FAILED
   └───────────────┘                             └timeout→ RAIL_AMBIGUOUS ─┬resolve→ RAIL_ACKED
PENDING, CLAIMED ─give up→ FAILED                                          ├resolve→ FAILED
                                                                           └abandon→ ABANDONED
` + "```" + `

Every move is one statement that names the state it leaves and compares the claim; its caller checks how many rows
changed (K-5.1). The trigger ` + "`payout_guard`" + ` refuses every other move to everybody, and a claim needs a higher token
than every claim the payout ever had (K-5.2) and than the floor (K-4.12).

| from | action | to | predicate, beside the payout's id | claim | 0 rows: read again |
|---|---|---|---|---|---|
`)
	for _, tr := range paystore.Transitions() {
		fmt.Fprintf(&b, "| %s | %s | %s | `%s` | %s | %s |\n", tr.From, tr.Action, tr.To, tr.Predicate, tr.Claim, tr.ZeroRows)
	}
	b.WriteString("\nFinal states: ")
	var final []string
	for _, s := range paystore.States() {
		if s.Final() {
			final = append(final, string(s))
		}
	}
	b.WriteString(strings.Join(final, ", ") + `. A payout that was rejected keeps the claim it had; one that was released forgets
it on its row, and ` + "`payout_claim`" + ` remembers.

A claim or an attempt in a paydb that was restored is refused with 55000 until the payout is resolved against the
rail's own record (K-7.9).
`)
	return b.String()
}
