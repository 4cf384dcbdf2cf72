package demo_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/cli/demo"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/internal/scenario"
	"github.com/dlockctl/dlockctl/internal/ui"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// stage is a migrated pair of databases with the demo's cast on it.
func stage(t *testing.T) (scenario.Cast, pgtest.Databases) {
	t.Helper()
	dbs := pgtest.Migrated(t, 16)
	return scenario.Cast{
		Lock: dbs.Lock.Conn(t, "t_operator"), Pay: dbs.Pay.Conn(t, "t_auditor"), Owner: dbs.Pay.Conn(t, "t_operator"),
		OpenPosting: openPay(t, dbs, "t_resource"), OpenRail: openPay(t, dbs, "t_rail"),
		Open: func(ctx context.Context) (lockstore.Store, error) {
			// Changing, so that a guard taken out is left to the story to notice.
			return postgres.Open(ctx, postgres.Options{Config: dbs.Lock.Config(t, "t_lockapp"), Purpose: postgres.Changing, MaxConns: 1})
		},
	}, dbs
}

func openPay(t *testing.T, dbs pgtest.Databases, login string) func(context.Context) (*paystore.DB, error) {
	return func(ctx context.Context) (*paystore.DB, error) {
		return paystore.Open(ctx, paystore.Options{Config: dbs.Pay.Config(t, login), Purpose: paystore.Changing, MaxConns: 1})
	}
}

// telling plays the story as `dlockctl demo -o json` does, and returns the exit
// code with the outcomes, and those that are not what they must be.
func telling(t *testing.T, cast scenario.Cast) (exit app.Exit, told, wrong []string) {
	t.Helper()
	streams, out, errOut := ui.Test("", map[string]string{"DLOCKCTL_OUTPUT": "json", "HOME": t.TempDir()})
	a := app.New(streams, nil)
	if err := demo.Tell(t.Context(), a, cast); err != nil {
		exit = a.Report(err)
	}
	var outcomes []scenario.Outcome
	if err := json.Unmarshal(out.Bytes(), &outcomes); err != nil {
		t.Fatalf("stdout is not JSON: %v\n%s%s", err, out, errOut)
	}
	for _, o := range outcomes {
		told = append(told, o.ID)
		if !o.OK {
			wrong = append(wrong, o.ID)
			t.Logf("%s: %s", o.ID, o.Saw)
		}
	}
	return exit, told, wrong
}

// With every guard in place every outcome is what it must be, and exit is 0. No
// chapter is left out: the lock, the payout that its stale holder is kept from at rail
// and account, and the books, with and without a leg that was changed by hand. That of
// the restore, which there is no copy for here, is told by test/e2e/testdata/demo.txtar.
//
// Clauses: K-1.3, K-2.6, K-2.7, K-2.8, K-3.1, K-3.3, K-4.1, K-4.2, K-4.7, K-6.1, K-8.1, K-8.2, K-11
// Mutation: any of those of TestDemoNoticesATakenGuard; leave a chapter out of Takeover.
func TestDemoTellsTheStory(t *testing.T) {
	t.Parallel()
	cast, _ := stage(t)
	exit, told, wrong := telling(t, cast)
	if exit != app.OK || len(wrong) != 0 {
		t.Errorf("exit %d, wrong outcomes %v", exit, wrong)
	}
	want := strings.Fields(`two_instances accounts_balance granted contended taken_over journalled renew_refused release_stale revoke_compares revoked audit_row audit_kept
		tokens_in_order paid_once rail_fenced account_fenced both_posted reconciled break_named reconciled_again`)
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("the outcomes (-want +got):\n%s", diff)
	}
}

// mutant is a store with one guard of its statements taken out.
type mutant struct {
	lockstore.Store
	conn            *pgx.Conn
	mu              *sync.Mutex
	release, revoke bool
}

// Release deletes by key alone.
func (m *mutant) Release(ctx context.Context, key string, token lockstore.Token) (lockstore.Release, error) {
	if !m.release {
		return m.Store.Release(ctx, key, token)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	tag, err := m.conn.Exec(ctx, `DELETE FROM lock_entry WHERE lock_key = $1`, key)
	return lockstore.Release{Key: key, Token: token, Stale: tag.RowsAffected() == 0}, err
}

// Revoke takes whatever stands, not what the operator saw.
func (m *mutant) Revoke(ctx context.Context, params lockstore.RevokeParams) (lockstore.LockOutcome, error) {
	if entry, err := m.Store.Show(ctx, params.Key); m.revoke && err == nil {
		params.Token = entry.Token
	}
	return m.Store.Revoke(ctx, params)
}

// The order trigger, the compare of revoke, the token of the release predicate, the
// account's fence and the leg that is changed by hand, each taken out in turn, end the
// demo with exit 1 and are named.
//
// Clauses: K-1.2, K-2.7, K-3.1, K-4.2, K-8.2
// Mutation: drop tokens_in_order, revoke_compares, release_stale, account_fenced or break_named from the story.
func TestDemoNoticesATakenGuard(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		outcome string
		take    func(t *testing.T, cast *scenario.Cast, dbs pgtest.Databases)
	}{
		{"tokens_in_order", func(t *testing.T, _ *scenario.Cast, dbs pgtest.Databases) {
			if _, err := dbs.Lock.Conn(t, "super").Exec(t.Context(), `ALTER TABLE lock_entry DISABLE TRIGGER lock_entry_order`); err != nil {
				t.Fatal(err)
			}
		}},
		{"release_stale", func(t *testing.T, cast *scenario.Cast, dbs pgtest.Databases) {
			mutate(t, cast, dbs, mutant{release: true})
		}},
		{"revoke_compares", func(t *testing.T, cast *scenario.Cast, dbs pgtest.Databases) {
			mutate(t, cast, dbs, mutant{revoke: true})
		}},
		{"account_fenced", func(t *testing.T, _ *scenario.Cast, dbs pgtest.Databases) {
			inPaydb(t, dbs, `CREATE FUNCTION lower_it() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.fence := OLD.fence; RETURN NEW; END'`,
				`CREATE TRIGGER a_lower BEFORE UPDATE ON account FOR EACH ROW EXECUTE FUNCTION lower_it()`)
		}},
		{"break_named", func(t *testing.T, _ *scenario.Cast, dbs pgtest.Databases) {
			inPaydb(t, dbs, `CREATE FUNCTION keep_it() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN OLD; END'`,
				`CREATE TRIGGER a_keep BEFORE UPDATE ON ledger_entry FOR EACH ROW EXECUTE FUNCTION keep_it()`)
		}},
	} {
		t.Run(tt.outcome, func(t *testing.T) {
			t.Parallel()
			cast, dbs := stage(t)
			tt.take(t, &cast, dbs)
			exit, _, wrong := telling(t, cast)
			if exit != app.Unexpected || !strings.Contains(strings.Join(wrong, " "), tt.outcome) {
				t.Errorf("exit %d, wrong outcomes %v, want exit 1 and %s", exit, wrong, tt.outcome)
			}
		})
	}
}

func inPaydb(t *testing.T, dbs pgtest.Databases, statements ...string) {
	t.Helper()
	super := dbs.Pay.Conn(t, "super")
	for _, sql := range statements {
		if _, err := super.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}

func mutate(t *testing.T, cast *scenario.Cast, dbs pgtest.Databases, m mutant) {
	t.Helper()
	m.conn, m.mu = dbs.Lock.Conn(t, "t_lockapp"), &sync.Mutex{}
	open := cast.Open
	cast.Open = func(ctx context.Context) (lockstore.Store, error) {
		store, err := open(ctx)
		if err != nil {
			return nil, err
		}
		each := m
		each.Store = store
		return &each, nil
	}
}

// A story that cannot be played to its end is no success.
func TestDemoThatBreaksOffFails(t *testing.T) {
	t.Parallel()
	cast, _ := stage(t)
	cast.Open = func(context.Context) (lockstore.Store, error) { return nil, errors.New("nobody there") }
	if exit, _, wrong := telling(t, cast); exit != app.Unexpected || len(wrong) != 1 || wrong[0] != "played" {
		t.Errorf("exit %d, wrong outcomes %v, want exit 1 and played", exit, wrong)
	}
}
