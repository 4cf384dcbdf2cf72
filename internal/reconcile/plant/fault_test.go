package plant_test

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/internal/reconcile/plant"
)

// seen says by which clause of a healthy world a planted fault shows.
func seen() map[string]string {
	return map[string]string{
		"A01": "a balance that does not agree", "A02": "an account without opening", "A05": "a posting without its two legs",
		"A06": "a posting without its two legs", "A07": "a posting without its two legs", "A08": "a posting without its two legs",
		"A08-payer": "a posting without its two legs", "A08-third": "a third leg", "A09": "a posting without its two legs",
		"A11": "a posting without its two legs", "A12": "legs without a posting", "A13": "legs without a posting",
		"A15": "a posting without its two legs", "A16": "a currency of another account", "A20": "times out of order",
		"B01": "a fence that nobody explains", "B02": "a fence that nobody explains", "B03": "legs out of order",
		"B04": "a posting without its two legs", "B05": "a token of two payers", "B05-name": "a token of two payers",
		"B10": "a mark too low", "B10-none": "a mark too low", "C02": "a posting without its one ACK", "C03": "a posting without its one ACK",
		"C05": "a posting without its one ACK", "C06": "a reference used twice", "C07": "a posting without its one ACK", "C08": "another key at the rail",
		"C10": "a token presented, not claimed", "C12": "times out of order", "C12-answer": "times out of order", "C13": "money out without a debit",
	}
}

// Every fault can be planted beside all others, on accounts of its own, and shows in a
// clause of the healthy world where that has one for it.
//
// Clauses: K-8.4
// Mutation: let all scenes be of one account, or let A13 leave the payout POSTED.
func TestPlantBreaksTheWorld(t *testing.T) {
	t.Parallel()
	w := healthy(t, pgtest.Majors()[0], plant.Params{Payouts: 1800, Accounts: 256, Seed: 3, Open: 2})
	clauses := payMustBeEmpty()
	used := map[string]string{}
	for _, name := range plant.Variants() {
		f, err := w.Plant(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if class, _, _ := strings.Cut(name, "-"); f.Class != class {
			t.Errorf("%s says it is of class %s", name, f.Class)
		}
		for _, id := range []string{f.AccountID, f.PayoutID} {
			if by := used[id]; id != "" && by != "" {
				t.Errorf("%s and %s both use %s", by, name, id)
			}
			used[id] = name
		}
		if clause := seen()[name]; clause != "" {
			checkSeen(t, w.pay, f, clauses[clause])
		}
	}
}

// checkSeen looks for the fault's author, account or payout among the rows.
func checkSeen(t *testing.T, on *pgx.Conn, f plant.Fault, sql string) {
	t.Helper()
	found := lines(t, on, "SELECT l::text FROM ("+sql+") l")
	for _, text := range found {
		for _, id := range []string{f.AccountID, f.PayoutID} {
			if id != "" && strings.Contains(text, id) {
				return
			}
		}
		if regexp.MustCompile(`\b` + token(f) + `\b`).MatchString(text) {
			return
		}
	}
	switch f.Class {
	case "C06", "C05", "C08", "C10": // the clause names the reference or the attempt
		if len(found) > 0 {
			return
		}
	}
	t.Errorf("%+v is not among %v", f, found)
}

func token(f plant.Fault) string {
	if f.Token == 0 {
		return "no token"
	}
	return strconv.FormatInt(f.Token, 10)
}

// The nearest things to a break break nothing: the constraints hold, the guards stand,
// and so do the clauses of a healthy world but for the few that are stricter than the
// contract.
//
// Clauses: K-8.4
// Mutation: let a helper forget the money of a leg, or leave a trigger disabled.
func TestNearMissesAreLegal(t *testing.T) {
	t.Parallel()
	w := healthy(t, pgtest.Majors()[0], plant.Params{Payouts: 1500, Accounts: 200, Seed: 5, Open: 1})
	near := plant.NearMisses()
	for _, class := range plant.Classes() {
		if !slices.Contains(near, class) {
			t.Errorf("%s has no near miss", class)
		}
	}
	for _, name := range near {
		if err := w.NearMiss(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	stricter := map[string]string{
		"legs out of order":             "B03: 30 s the other way round",
		"a posting without its one ACK": "C02: an operator proved it",
	}
	for what, sql := range payMustBeEmpty() {
		found := lines(t, w.pay, sql)
		if why := stricter[what]; why != "" {
			if len(found) != 1 {
				t.Errorf("%s (%s): %v", what, why, found)
			}
			continue
		}
		if len(found) > 0 {
			t.Errorf("%s: %d, such as %s", what, len(found), found[0])
		}
	}
	checkConstraints(t, w.pay)
	checkConstraints(t, w.lock)
	checkTriggers(t, w.pay)
	checkTriggers(t, w.lock)
}

// Many faults of each class that the guards alone forbid, each with rows of its own.
//
// Clauses: K-8.4
// Mutation: number the new rows of a fault by class instead of by scene.
func TestPlantMany(t *testing.T) {
	t.Parallel()
	w := healthy(t, pgtest.Majors()[0], plant.Params{Payouts: 1200, Accounts: 400, Seed: 9})
	faults, err := w.PlantMany(t.Context(), 3)
	if err != nil {
		t.Fatal(err)
	}
	perClass := map[string]int{}
	for _, f := range faults {
		perClass[f.Class]++
	}
	want := map[string]int{}
	for _, class := range strings.Fields("A01 A05 A06 A07 A08 A09 A11 A12 A13 A14 A15 A16 A20 B01 B02 B03 B04 B05 B06 B07 B08 B09 B10 B11 B12 B13 B14 B16 B18 B19 B20 B21 C01 C02 C03 C04 C06 C07 C08 C10 C11 C12 C13") {
		want[class] = 3
	}
	if diff := cmp.Diff(want, perClass); diff != "" {
		t.Errorf("planted (-want +got):\n%s", diff)
	}
	// Nothing of the schema was needed, but for the one orphan's foreign keys.
	checkTriggers(t, w.pay)
	checkTriggers(t, w.lock)
	if missing := lines(t, w.pay, `SELECT 1 FROM pg_class WHERE relname IN ('ledger_direction_uidx', 'rail_submission_attempt_uidx')`); len(missing) != 2 {
		t.Errorf("an index was dropped: %v", missing)
	}
}
