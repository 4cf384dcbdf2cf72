package paystore_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// onMajors runs f once per tested version, on a migrated and seeded paydb.
func onMajors(t *testing.T, f func(t *testing.T, conn *pgx.Conn)) {
	t.Helper()
	for _, major := range pgtest.Majors() {
		t.Run(fmt.Sprintf("pg%d", major), func(t *testing.T) {
			t.Parallel()
			f(t, pgtest.Migrated(t, major).Pay.Conn(t, "super"))
		})
	}
}

// move is one try at the real trigger: from, to, and what it does to the claim.
type move struct {
	From, To paystore.State
	Claim    paystore.ClaimChange
}

// All 8 × 8 pairs, with the claim kept, set higher and forgotten: the database
// allows what the table says, and nothing else.
//
// Clauses: K-5.1, K-5.2, K-4.10
// Mutation: add or take a pair in payout_guard, or a row of Transitions.
func TestTransitionsAreWhatTheDatabaseAllows(t *testing.T) {
	t.Parallel()
	onMajors(t, func(t *testing.T, conn *pgx.Conn) {
		want := map[move]bool{}
		for _, tr := range paystore.Transitions() {
			want[move{tr.From, tr.To, tr.Claim}] = true
		}
		for _, s := range paystore.States() {
			want[move{s, s, paystore.ClaimKept}] = true // no transition at all: an attempt counted
		}
		got := map[move]bool{}
		for _, from := range paystore.States() {
			for _, to := range paystore.States() {
				for _, claim := range []paystore.ClaimChange{paystore.ClaimKept, paystore.ClaimSet, paystore.ClaimForgotten} {
					if from == paystore.Pending && claim == paystore.ClaimForgotten {
						continue // it has none: the same as kept
					}
					if allowed(t, conn, move{from, to, claim}) {
						got[move{from, to, claim}] = true
					}
				}
			}
		}
		if diff := cmp.Diff(sorted(want), sorted(got)); diff != "" {
			t.Errorf("transitions (-table +database):\n%s", diff)
		}
	})
}

func sorted(moves map[move]bool) []string {
	var lines []string
	for m := range maps.Keys(moves) {
		lines = append(lines, fmt.Sprintf("%s → %s, claim %s", m.From, m.To, m.Claim))
	}
	slices.Sort(lines)
	return lines
}

// evidence is what a payout needs on record to leave the rail for the state.
func evidence(to paystore.State) string {
	if to == paystore.RailAmbiguous {
		return `INSERT INTO rail_submission (submission_id, payout_id, idempotency_key, presented_token, outcome, resolved_at)
			SELECT gen_random_uuid(), payout_id, 'k', 5, 'TIMEOUT', now() FROM payout WHERE idempotency_key = 'k'`
	}
	verdict, needed := map[paystore.State]paystore.Verdict{
		paystore.RailAcked: paystore.VerdictPaid, paystore.Failed: paystore.VerdictNotFound, paystore.Abandoned: paystore.VerdictUndetermined,
	}[to]
	if !needed {
		return "SELECT"
	}
	return fmt.Sprintf(`INSERT INTO payout_resolution (payout_id, source, verdict, evidence, operator, reason)
		SELECT payout_id, 'rail', '%s', '{"a": 1}', 'o', 'r' FROM payout WHERE idempotency_key = 'k'`, verdict)
}

// allowed puts a payout into the state and tries the move, then undoes both.
func allowed(t *testing.T, conn *pgx.Conn, m move) bool {
	t.Helper()
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := tx.Rollback(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	// As a replayed row, which may be born in any state.
	const put = `
		SET LOCAL session_replication_role = replica;
		INSERT INTO payout (payout_id, account_id, amount_minor, currency, idempotency_key, state, claimed_by, claim_token)
		SELECT gen_random_uuid(), account_id, 1, currency, 'k', '%[1]s',
		       CASE WHEN '%[1]s' <> 'PENDING' THEN 'w' END, CASE WHEN '%[1]s' <> 'PENDING' THEN 5 END
		  FROM account LIMIT 1;
		%[2]s;
		SET LOCAL session_replication_role = origin`
	if _, err := tx.Conn().PgConn().Exec(t.Context(), fmt.Sprintf(put, m.From, evidence(m.To))).ReadAll(); err != nil {
		t.Fatal(err)
	}
	set := map[paystore.ClaimChange]string{
		paystore.ClaimKept:      "",
		paystore.ClaimSet:       ", claimed_by = 'v', claim_token = 6",
		paystore.ClaimForgotten: ", claimed_by = NULL, claim_token = NULL",
	}[m.Claim]
	tag, err := tx.Exec(t.Context(), "UPDATE payout SET state = $1, updated_at = now()"+set+" WHERE idempotency_key = 'k'", m.To)
	return err == nil && tag.RowsAffected() == 1
}

// The names that Go knows are those the database's constraints name.
//
// Clauses: K-5.3, K-1.6
// Mutation: add a state, an outcome or a verdict on one side only.
func TestNamesAreTheDatabases(t *testing.T) {
	t.Parallel()
	onMajors(t, func(t *testing.T, conn *pgx.Conn) {
		for constraint, names := range map[string][]string{
			"payout_state_ck":              stringsOf(paystore.States()),
			"rail_outcome_ck":              stringsOf([]paystore.Outcome{paystore.OutcomeAcked, paystore.OutcomeRejected, paystore.OutcomeTimeout, paystore.OutcomeFenced}),
			"payout_resolution_verdict_ck": stringsOf(paystore.Verdicts()),
		} {
			rows, err := conn.Query(t.Context(), `
				SELECT m[1] FROM pg_constraint, regexp_matches(pg_get_constraintdef(oid), '''([A-Z_]+)''', 'g') m
				 WHERE conname = $1 ORDER BY 1`, constraint)
			if err != nil {
				t.Fatal(err)
			}
			got, err := pgx.CollectRows(rows, pgx.RowTo[string])
			if err != nil {
				t.Fatal(err)
			}
			slices.Sort(got)
			slices.Sort(names)
			if diff := cmp.Diff(got, names); diff != "" {
				t.Errorf("%s (-database +go):\n%s", constraint, diff)
			}
		}
		var bounds int
		err := conn.QueryRow(t.Context(), `SELECT count(*) FROM pg_constraint WHERE pg_get_constraintdef(oid) LIKE $1`,
			fmt.Sprintf("%%%d%%", paystore.MaxToken)).Scan(&bounds)
		if err != nil || bounds != 8 {
			t.Errorf("%d constraints bound a token at %d, %v; want 8", bounds, paystore.MaxToken, err)
		}
	})
}

func stringsOf[S ~string](names []S) []string {
	var out []string
	for _, n := range names {
		out = append(out, string(n))
	}
	return out
}

// A state is final when no row of the table leads out of it.
//
// Clauses: K-5.1
// Mutation: take FAILED out of Final.
func TestFinalStatesHaveNoWayOut(t *testing.T) {
	t.Parallel()
	for _, s := range paystore.States() {
		leaves := slices.ContainsFunc(paystore.Transitions(), func(tr paystore.Transition) bool { return tr.From == s })
		if leaves == s.Final() {
			t.Errorf("%s: final %t, and a transition leaves it: %t", s, s.Final(), leaves)
		}
	}
}

func TestParseState(t *testing.T) {
	t.Parallel()
	if got, err := paystore.ParseState("rail_acked"); err != nil || got != paystore.RailAcked {
		t.Errorf("rail_acked: %q, %v", got, err)
	}
	_, err := paystore.ParseState("PAID")
	if !errors.Is(err, paystore.ErrInvalid) || !strings.Contains(err.Error(), `"PAID"`) || !strings.Contains(err.Error(), "RAIL_AMBIGUOUS") {
		t.Errorf("PAID: %v", err)
	}
}
