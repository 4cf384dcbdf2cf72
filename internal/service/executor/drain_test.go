package executor_test

import (
	"context"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/internal/service/executor"
	"github.com/dlockctl/dlockctl/internal/service/payapi"
)

// Told to stop, an executor finishes what it has within its drain, and gives back what
// has not left for the rail.
//
// Mutation: end the workers with the finder, or leave giveBack out of outcome.
func TestDrains(t *testing.T) {
	t.Parallel()
	w := newWorld(t, patient)
	w.create(t, account(1), 100)
	door := &heldDoor{Rail: w.rail, entered: make(chan struct{}, 1), free: make(chan struct{})}
	finishing := w.start(t, "a", func(o *executor.Options) { o.Rail = door })
	<-door.entered
	w.until(t, "RAIL_SUBMITTED 1")
	finishing.stop()
	close(door.free)
	<-finishing.done
	w.until(t, "POSTED 1")

	stuck := &stuckPayments{Payments: w.payments, reached: make(chan struct{}, 1)}
	w.create(t, account(1), 200)
	r := w.start(t, "b", func(o *executor.Options) { o.Payments, o.Drain = stuck, 50*time.Millisecond })
	<-stuck.reached
	r.stop()
	<-r.done
	if n := r.count(t, "stopped"); n != 1 {
		t.Errorf("%d stopped, want 1", n)
	}
	w.until(t, "PENDING 1, POSTED 1")
	if left, err := w.locks.List(t.Context(), lockstore.Filter{}); err != nil || len(left) > 0 {
		t.Errorf("locks left: %+v, %v", left, err)
	}
}

// heldDoor is a rail-proxy that is held up until it is set free, or its caller gives up.
type heldDoor struct {
	executor.Rail

	entered, free chan struct{}
}

func (d *heldDoor) Submit(ctx context.Context, id string, token paystore.Token) (payapi.Attempt, error) {
	d.entered <- struct{}{}
	select {
	case <-d.free:
		return d.Rail.Submit(ctx, id, token)
	case <-ctx.Done():
		return payapi.Attempt{}, &paystore.UnreachableError{Doing: "submit", Err: context.Cause(ctx)}
	}
}

// stuckPayments is a payment-resource that does not take a submission until its caller
// gives up.
type stuckPayments struct {
	executor.Payments

	reached chan struct{}
}

func (s *stuckPayments) Submit(ctx context.Context, _ string, _ paystore.Token) (payapi.Payout, error) {
	s.reached <- struct{}{}
	<-ctx.Done()
	return payapi.Payout{}, &paystore.UnreachableError{Doing: "submit", Err: context.Cause(ctx)}
}

// An account with more payouts than a look takes in hides no other for long.
//
// Mutation: leave the page out of look, or raise perVisit to thousands.
func TestFair(t *testing.T) {
	t.Parallel()
	w := newWorld(t, patient)
	_, err := w.pay.Exec(t.Context(), `INSERT INTO payout (payout_id, account_id, amount_minor, currency, state, idempotency_key)
		SELECT gen_random_uuid(), $1, 1, 'EUR', 'PENDING', 'crowd-' || n FROM generate_series(1, 600) n`, account(1))
	if err != nil {
		t.Fatal(err)
	}
	small := w.create(t, account(2), 100)
	w.start(t, "a", func(o *executor.Options) { o.Workers = 1 })
	var crowd int
	pgtest.Eventually(t, "the small account is paid", func(ctx context.Context) (done bool, err error) {
		// Its one worker has a higher token for each: those below the small one's came before it.
		err = w.pay.QueryRow(ctx, `SELECT count(s.fence) > 0, 600 - count(*) FILTER (WHERE l.account_id = $2 AND l.fence < s.fence)
			FROM ledger_entry l LEFT JOIN ledger_entry s ON s.payout_id = $1 AND s.direction = 'DEBIT' WHERE l.direction = 'DEBIT'`,
			small.PayoutID, account(1)).Scan(&done, &crowd)
		return done, err
	})
	if crowd < 300 {
		t.Errorf("%d of the large account's 600 were still to be paid when the small one's came", crowd)
	}
}

// Neither executor nor client opens a database.
//
// Mutation: import pgx in one of them.
func TestNoDatabase(t *testing.T) {
	t.Parallel()
	forbidden := []string{"jackc/pgx", "database/sql", "lockstore/postgres", "paystore/posting", "paystore/rail", "paystore/resolver"}
	looked := 0
	for _, dir := range []string{".", "../client"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			looked++
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), file, text, parser.ImportsOnly)
			if err != nil {
				t.Fatal(err)
			}
			for _, imported := range parsed.Imports {
				for _, no := range forbidden {
					if strings.Contains(imported.Path.Value, no) {
						t.Errorf("%s imports %s", file, imported.Path.Value)
					}
				}
			}
		}
	}
	if looked < 10 {
		t.Errorf("%d files looked at", looked)
	}
}
