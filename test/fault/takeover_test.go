//go:build unix

package fault_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/pgtx"
)

// Pause and return: a worker has the lock and the claim, and is stopped past its
// lease just before it asks the rail. Another takes over and pays. The first goes on
// as if nothing had happened. With fencing it is refused at the rail and at the
// account, and the rail was asked once; without, the rail was asked twice, and no
// ledger shows it.
//
// Clauses: K-4.1, K-4.5, K-4.6, K-4.10, K-4.11, K-5.2, K-6.2
// Mutation: fencing off (the test does); `<=` for `<` in (a) or (d), `<` for `<=` in
// (b), or any of the three without its predicate.
func TestPauseAndReturn(t *testing.T) {
	t.Parallel()
	for name, disabled := range map[string]bool{"fencing on": false, "fencing off": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachMajor(t, func(t *testing.T, w world) {
				payoutID, key := w.payout(t)
				a, b := w.order("worker-a", payoutID, 5*lockstore.MinTTL), w.order("worker-b", payoutID, time.Minute)
				a.FencingDisabled, b.FencingDisabled = disabled, disabled
				a.PauseBefore = stepRail
				want := 2
				if !disabled {
					a.Next, _ = w.payout(t)
					want = 1
				}
				first := start(t, a)
				stale := first.pauses(t).Token
				first.stop(t)
				w.lapse(t)

				second := start(t, b).rest(t)
				current := second[stepAcquire].Token
				if current <= stale || second[stepRail].Stands != "ACKED" || second[stepPost].Stands != "posted under "+current.String() {
					t.Fatalf("the second, after token %s: %+v", stale, second)
				}
				first.goOn(t)
				w.returned(t, first.rest(t), disabled, current)
				if got := w.rail.requests(key); got != want {
					t.Errorf("the rail received %d requests for one payout, want %d", got, want)
				}
				w.postedOnce(t, payoutID, current)
				w.alone(t, payoutID, stale, current)
			})
		})
	}
}

// returned looks at what the first met when it came back.
func (w world) returned(t *testing.T, reports map[step]report, disabled bool, current lockstore.Token) {
	t.Helper()
	type met struct {
		Fenced paystore.Resource
		Stands string
	}
	got := map[step]met{}
	for step, r := range reports {
		got[step] = met{r.Fenced, r.Stands}
	}
	want := map[step]met{
		stepRail:    {Fenced: paystore.ResourceRail},
		stepSettle:  {Fenced: paystore.ResourcePayout},
		stepPost:    {Stands: "posted before, under " + current.String()}, // and not again (K-4.3)
		stepNext:    {Stands: string(paystore.Claimed)},                   // a claim alone moves no money
		stepAccount: {Fenced: paystore.ResourceAccount},
		stepRelease: {Stands: "stale true"},
	}
	if disabled {
		want[stepRail] = met{Stands: string(paystore.OutcomeAcked)}
		delete(want, stepNext)
		delete(want, stepAccount)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the first comes back (-want +got):\n%s\n%+v", diff, reports)
	}
}

// postedOnce looks at the ledger: one posting, whatever reached the rail.
func (w world) postedOnce(t *testing.T, payoutID string, token lockstore.Token) {
	t.Helper()
	legs := value[string](t, w.pay, `SELECT string_agg(direction || ' ' || amount_minor || ' under ' || fence, ', ' ORDER BY direction DESC)
		FROM ledger_entry WHERE payout_id = $1`, payoutID)
	if want := fmt.Sprintf("DEBIT 4711 under %s, CREDIT 4711 under %s", token, token); legs != want {
		t.Errorf("legs %s, want %s", legs, want)
	}
	left := value[int64](t, w.pay, `SELECT o.amount_minor - a.balance_minor FROM account a JOIN opening_balance o USING (account_id) WHERE account_id = $1`, account)
	if left != 4711 {
		t.Errorf("%d left the account, want 4711", left)
	}
}

// alone runs (a), (b) and (d) by themselves: 0 rows with the stale token, and with the
// current one where the comparison is strict; not with one that may.
func (w world) alone(t *testing.T, payoutID string, stale, current lockstore.Token) {
	t.Helper()
	debit := statement(t, "posting", "debit", "amount_minor", "token", "account_id", "currency")
	leg := statement(t, "posting", "leg", "entry_id", "payout_id", "direction", "amount_minor", "token", "account_id")
	mark := statement(t, "rail", "mark", "account_id", "token")
	for token, want := range map[lockstore.Token]string{stale: "0 rows", current: "0 rows", current + 1: "1 rows"} {
		if got := w.rows(t, debit, 4711, int64(token), account, "EUR"); got != want {
			t.Errorf("(a) with token %s: %s, want %s", token, got, want)
		}
		if got := w.rows(t, mark, account, int64(token)); got != want {
			t.Errorf("(d) with token %s: %s, want %s", token, got, want)
		}
	}
	for token, want := range map[lockstore.Token]string{
		stale:   "0 rows",
		current: pgerrcode.UniqueViolation, // it would write; the leg stands already
	} {
		if got := w.rows(t, leg, uuid.New(), payoutID, paystore.Debit, 4711, int64(token), account); got != want {
			t.Errorf("(b) with token %s: %s, want %s", token, got, want)
		}
	}
}

// statement is one of a store's own.
func statement(t *testing.T, store, name string, params ...string) string {
	t.Helper()
	files, ok := os.DirFS("../../internal/paystore/" + store).(fs.ReadFileFS)
	if !ok {
		t.Fatal("a folder is no file system to read from")
	}
	return pgtx.Statement(files, name, params...)
}

// rows runs a statement, undoes it, and tells how many rows it changed, or which
// error it met.
func (w world) rows(t *testing.T, sql string, args ...any) (saw string) {
	t.Helper()
	undo := errors.New("undo")
	err := pgx.BeginFunc(t.Context(), w.pay, func(tx pgx.Tx) error {
		tag, err := tx.Exec(t.Context(), sql, args...)
		if err != nil {
			return err
		}
		saw = fmt.Sprintf("%d rows", tag.RowsAffected())
		return undo
	})
	switch {
	case errors.Is(err, undo):
		return saw
	case pgtx.HasCode(err, pgerrcode.UniqueViolation):
		return pgerrcode.UniqueViolation
	default:
		t.Fatalf("%s: %v", sql, err)
		return ""
	}
}
