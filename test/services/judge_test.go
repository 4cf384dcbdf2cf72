//go:build unix

package services_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/dlockctl/dlockctl/internal/paystore"
)

// once wants each payout to have come to the rail at most once, and to have been paid
// there and posted here, or neither.
func (f *fleet) once(t *testing.T) {
	t.Helper()
	paid := f.paid(t)
	rows, err := conn(t, f.pay).Query(t.Context(), `SELECT p.idempotency_key, p.state, count(e.*) FROM payout p LEFT JOIN ledger_entry e USING (payout_id) GROUP BY 1, 2`)
	if err != nil {
		t.Fatal(err)
	}
	var wrong []string
	payouts := 0
	for rows.Next() {
		payouts++
		var key, state string
		var legs int
		if err := rows.Scan(&key, &state, &legs); err != nil {
			t.Fatal(err)
		}
		want := 0
		if state == string(paystore.Posted) {
			want = 1
		}
		if at := paid[key]; at.Paid != want || at.Requests > 1 || legs != 2*want {
			wrong = append(wrong, fmt.Sprintf("%s is %s with %d legs; the rail had %d requests and paid %d times (%s)", key, state, legs, at.Requests, at.Paid, at.Outcome))
		}
		delete(paid, key)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	for key := range paid {
		wrong = append(wrong, "the rail has a payment "+key+" without a payout")
	}
	if len(wrong) > 0 || payouts == 0 {
		t.Errorf("%d payouts, not once:\n%s", payouts, strings.Join(wrong, "\n"))
	}
}

// clean wants reconcile to find nothing, with the whole catalogue.
func (f *fleet) clean(t *testing.T) {
	t.Helper()
	out, errOut, exit, err := f.run(t.Context(), "t_auditor", "reconcile", "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	var report struct {
		Outcome  string            `json:"outcome"`
		Complete bool              `json:"complete"`
		Findings []json.RawMessage `json:"findings"`
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatalf("reconcile: %v\n%s%s", err, out, errOut)
	}
	if exit != 0 || report.Outcome != "CLEAN" || !report.Complete {
		t.Errorf("reconcile: exit %d, %s, complete %t\n%s\n%s", exit, report.Outcome, report.Complete, report.Findings, errOut)
	}
}

// fencedHistory wants lockdb's own journal to be that of a fenced mutex: on a key the
// tokens rise as the grants were made, and no grant began before the one before it
// ended (K-1.3). The journal's times are when a transaction began, and one may have
// waited for another: they may cross by the 2 s that a try waits, and by more on a busy
// machine.
func (f *fleet) fencedHistory(t *testing.T) {
	t.Helper()
	var grants, disorder, overlaps int
	err := conn(t, f.lock).QueryRow(t.Context(), `
		WITH ordered AS (
			SELECT granted_at, ended_at, lag(granted_at) OVER w AS granted_before, lag(ended_at) OVER w AS ended_before,
				lag(fencing_token) OVER w AS before FROM lock_grant WINDOW w AS (PARTITION BY lock_key ORDER BY fencing_token))
		SELECT count(*), count(*) FILTER (WHERE granted_before > granted_at + interval '5 s'),
			count(*) FILTER (WHERE before IS NOT NULL AND (ended_before IS NULL OR ended_before > granted_at + interval '5 s')) FROM ordered`).Scan(&grants, &disorder, &overlaps)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the journal has %d grants", grants)
	if grants < 20 || disorder > 0 || overlaps > 0 {
		t.Errorf("of %d grants %d are out of order and %d overlap the one before", grants, disorder, overlaps)
	}
	var audit, errOut string
	var exit int
	if audit, errOut, exit, err = f.run(t.Context(), "t_auditor", "audit", "verify", "-o", "json"); err != nil || exit != 0 {
		t.Errorf("audit verify: exit %d, %v\n%s%s", exit, err, audit, errOut)
	}
}
