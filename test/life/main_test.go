// Package life_test plays the whole life of payouts: random walks against a model,
// and a client that dies at every statement it sends.
//
// Longer, as `make soak` does: go test -race ./test/life -run 'TestLife$' -timeout 60m -rapid.checks=2000
package life_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dlockctl/dlockctl/internal/leaktest"
	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/paystore/posting"
	"github.com/dlockctl/dlockctl/internal/paystore/rail"
	"github.com/dlockctl/dlockctl/internal/pgtest"
)

func TestMain(m *testing.M) {
	pgtest.Main(m)
	leaktest.Exit()
}

// deadline is a forwarding deadline that nobody misses; where it has to pass, the
// attempt is made older.
const deadline = 10 * time.Minute

// world is a migrated paydb, who looks on, and the rail.
type world struct {
	dbs   pgtest.Databases
	super *pgxpool.Pool
	rail  *scriptedRail
	// purpose is what the services open paydb for.
	purpose paystore.Purpose
}

func newWorld(t *testing.T, major int) world {
	t.Helper()
	dbs := pgtest.Migrated(t, major)
	return world{dbs: dbs, super: dbs.Pay.Pool(t, "super"), rail: newScriptedRail(), purpose: paystore.Changing}
}

func (w world) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	if _, err := w.super.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// stores are paydb under the login of each service, one connection each: statements
// come in one order.
type stores struct{ money, attempts *paystore.DB }

// open connects both services; through may be nil.
func (w world) open(t *testing.T, through func(*pgx.ConnConfig) *pgx.ConnConfig) stores {
	t.Helper()
	one := func(login string) *paystore.DB {
		config := w.dbs.Pay.Config(t, login)
		if through != nil {
			config = through(config)
		}
		db, err := paystore.Open(t.Context(), paystore.Options{Config: config, Purpose: w.purpose, MaxConns: 1, LockTimeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(db.Close)
		return db
	}
	return stores{money: one("t_resource"), attempts: one("t_rail")}
}

// makeOld lets the forwarding deadline of a payout's attempt have passed: nobody but
// the clock may change when it was submitted, so its guard looks away.
func (w world) makeOld(ctx context.Context, payoutID string) error {
	return pgx.BeginFunc(ctx, w.super, func(tx pgx.Tx) error {
		for _, sql := range []string{
			`ALTER TABLE rail_submission DISABLE TRIGGER rail_submission_guard`,
			`UPDATE rail_submission SET submitted_at = submitted_at - interval '1 day' WHERE outcome IS NULL AND payout_id = '` + payoutID + `'`,
			`ALTER TABLE rail_submission ENABLE ALWAYS TRIGGER rail_submission_guard`,
		} {
			if _, err := tx.Exec(ctx, sql); err != nil {
				return fmt.Errorf("%s: %w", sql, err)
			}
		}
		return nil
	})
}

// class is the kind of an answer, with what it names, as the model predicts it.
func class(err error) string {
	if err == nil {
		return done
	}
	if e, ok := errors.AsType[*paystore.FencedError](err); ok {
		return fenced(e.Resource, e.Presented, e.Stored)
	}
	if e, ok := errors.AsType[*paystore.ClaimedError](err); ok {
		return claimed(e.By, e.Token)
	}
	if e, ok := errors.AsType[*paystore.StateError](err); ok {
		return inState(e.Have)
	}
	if e, ok := errors.AsType[*paystore.RejectedError](err); ok {
		return "rejected: " + string(e.Reason)
	}
	if e, ok := errors.AsType[*paystore.ConflictError](err); ok {
		return "conflict: " + e.Field
	}
	if _, ok := errors.AsType[*paystore.EvidenceError](err); ok {
		return noEvidence
	}
	if _, ok := errors.AsType[*paystore.UnknownOutcomeError](err); ok {
		return unknown
	}
	for known, name := range map[error]string{paystore.ErrInvalid: invalid, paystore.ErrNotFound: notFound, errRail: railError} {
		if errors.Is(err, known) {
			return name
		}
	}
	return "unexpected: " + err.Error()
}

// The classes that name nothing.
const (
	done       = "done"
	noEvidence = "evidence"
	unknown    = "unknown"
	invalid    = "invalid"
	notFound   = "not found"
	railError  = "the rail's error"

	noFunds = "rejected: insufficient_funds"
)

func fenced(by paystore.Resource, presented, stored paystore.Token) string {
	return fmt.Sprintf("fenced by the %s: %s below %s", by, presented, stored)
}

func claimed(by string, token paystore.Token) string {
	return fmt.Sprintf("claimed by %s: %s", by, token)
}

func inState(s paystore.State) string { return "state " + string(s) }

// eventually asks until the answer is yes.
func eventually(ctx context.Context, what string, ask func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		if yes, err := ask(ctx); err != nil || yes {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: it never did", what)
		case <-tick.C:
		}
	}
}

// proxy is a rail-proxy before the world's rail.
func (w world) proxy(db *paystore.DB, opts rail.Options) *rail.Proxy {
	if opts.Timeout == 0 {
		opts.Timeout = deadline
	}
	return rail.New(db, w.rail, opts)
}

func store(db *paystore.DB) *posting.Store { return posting.New(db, posting.Options{}) }
