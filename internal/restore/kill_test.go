package restore_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dlockctl/dlockctl/internal/instance/owner"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/restore"
)

// killed is what the hook dies of.
type killed struct{ at string }

// statements runs a fast-forward to its end and returns every statement it ran.
func statements(t *testing.T, w *world) (names []string) {
	t.Helper()
	note := func(_ context.Context, name string) error {
		names = append(names, name)
		return nil
	}
	opts := options()
	opts.After = note
	if result := forward(t, w.stores(t, how{after: note}), opts); result.Outcome != restore.Advanced {
		t.Fatalf("a run without fault: %+v", result)
	}
	return names
}

// dies runs a fast-forward that panics behind the n-th statement.
func dies(t *testing.T, w *world, n int) (at string) {
	t.Helper()
	die := func() owner.Hook {
		count := 0
		return func(_ context.Context, name string) error {
			if count++; count > n {
				panic(killed{name})
			}
			return nil
		}
	}()
	opts := options()
	opts.After = die
	defer func() {
		died, ok := recover().(killed)
		if !ok {
			t.Fatalf("statement %d: it did not die", n)
		}
		at = died.at
	}()
	_, _ = restore.FastForward(t.Context(), w.stores(t, how{after: die}), opts)
	return ""
}

// A fast-forward that dies behind any of its statements leaves grants refused from
// the moment its gate was closed until it is opened, and one that runs after it
// completes it at the same target, with one audit row for each lock.
//
// Clauses: K-7.4, K-7.2, K-1.3
// Mutation: open the gate before a step, or count an own target as evidence in assess.
func TestDeathBehindEveryStatement(t *testing.T) {
	t.Parallel()
	onMajors(t, func(t *testing.T, w *world) {
		names := statements(t, w)
		for _, step := range restore.Steps() {
			if step == restore.StepEvidence || step == restore.StepVerify {
				continue // they change nothing
			}
			if !slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, string(step)+": ") }) {
				t.Errorf("step %s told no statement", step)
			}
		}
		store := w.grantor(t)
		var highest int64
		for n, name := range names {
			highest = one[int64](t, w.lock, `SELECT greatest(last_value, $1) FROM fencing_token_seq`, highest)
			observed := lockstore.Token(highest + 1000)
			hold(t, store, "a") // from before the restore; the gate is open, so that only the run refuses
			w.observed(t, int64(observed))
			target := observed + restore.DefaultMargin
			audited := one[int64](t, w.lock, `SELECT count(*) FROM lock_revocation`)

			if at := dies(t, w, n); at != name {
				t.Fatalf("it died at %s, not at %s", at, name)
			}
			begun := n >= slices.Index(names, "close_gate: commit")
			done := n >= slices.Index(names, "open_gate: commit")
			if err := tryGrant(t, store); isClosed(err) != (begun && !done) || err != nil && !isClosed(err) {
				t.Errorf("dead behind %s: a grant was answered %v", name, err)
			}
			if done {
				continue
			}
			s := w.stores(t, how{})
			result := forward(t, s, options())
			wantTarget := target
			if !begun {
				// The grant that passed before anything was closed counts.
				wantTarget = result.Plan.Observed + restore.DefaultMargin
			}
			if result.Outcome != restore.Advanced || !result.GateOpen || result.To != wantTarget {
				t.Errorf("dead behind %s: the rerun went to %s, not to %s: %+v", name, result.To, wantTarget, result.Why)
			}
			advanced := n >= slices.Index(names, "advance: commit")
			if result.Moved == advanced {
				t.Errorf("dead behind %s: the rerun moved: %v", name, result.Moved)
			}
			locks := one[int64](t, w.lock, `SELECT count(*) FROM lock_grant WHERE ended = 'voided' AND fencing_token > $1`, highest)
			if rows := one[int64](t, w.lock, `SELECT count(*) FROM lock_revocation`) - audited; rows != locks || rows == 0 {
				t.Errorf("dead behind %s: %d audit rows for %d voided locks", name, rows, locks)
			}
			if got := one[int64](t, w.pay, `SELECT min(floor_token) FROM fence_floor`); got != int64(wantTarget) {
				t.Errorf("dead behind %s: the lower floor is %d", name, got)
			}
			if again := forward(t, s, options()); again.Outcome != restore.Safe {
				t.Errorf("dead behind %s: after the rerun: %+v", name, again)
			}
		}
	})
}

func tryGrant(t *testing.T, store lockstore.Store) error {
	t.Helper()
	session, err := store.CreateSession(t.Context(), "bob", time.Hour)
	if err != nil {
		return err
	}
	_, err = store.Acquire(t.Context(), lockstore.AcquireParams{Key: "try", Owner: "bob", Session: session.ID, TTL: time.Minute})
	if held := (*lockstore.HeldError)(nil); errors.As(err, &held) {
		return nil
	}
	return err
}

func isClosed(err error) bool {
	_, ok := errors.AsType[*lockstore.GrantsClosedError](err)
	return ok
}
