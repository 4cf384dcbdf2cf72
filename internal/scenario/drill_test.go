package scenario_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/paystore/floor"
	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/internal/restore"
	"github.com/dlockctl/dlockctl/internal/scenario"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// newCast is a migrated pair of databases with a cast on it whose lockdb can be
// set back.
func newCast(t *testing.T, major int) (scenario.Cast, pgtest.Databases) {
	t.Helper()
	dbs := pgtest.Migrated(t, major)
	pay := dbs.Pay.Conn(t, "t_auditor")
	openPay := func(login string) func(context.Context) (*paystore.DB, error) {
		return func(ctx context.Context) (*paystore.DB, error) {
			return paystore.Open(ctx, paystore.Options{Config: dbs.Pay.Config(t, login), Purpose: paystore.Changing, MaxConns: 1})
		}
	}
	return scenario.Cast{
		Lock: dbs.Lock.Conn(t, "t_operator"), Pay: pay, OpenPosting: openPay("t_resource"), OpenRail: openPay("t_rail"),
		Open: func(ctx context.Context) (lockstore.Store, error) {
			return postgres.Open(ctx, postgres.Options{
				Config: dbs.Lock.Config(t, "t_lockapp"), Purpose: postgres.Granting, MaxConns: 1,
				PayHighest: func(ctx context.Context) (highest lockstore.Token, err error) {
					err = pay.QueryRow(ctx, `SELECT coalesce(max(claim_token), 0) FROM payout`).Scan(&highest)
					return highest, err
				},
			})
		},
		Rewind: newRewind(t, dbs),
	}, dbs
}

func newRewind(t *testing.T, dbs pgtest.Databases) *scenario.Rewind {
	t.Helper()
	name := pgx.Identifier{dbs.Lock.Name}.Sanitize()
	saved, lost := dbs.Lock.Server.EmptyDB(t), dbs.Lock.Server.EmptyDB(t)
	elsewhere := pgtest.DB{Server: dbs.Lock.Server, Name: "postgres"}.Conn(t, "super")
	do := func(ctx context.Context, statements ...string) error {
		ends := `SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = '` + dbs.Lock.Name + `'`
		for _, statement := range append([]string{ends}, statements...) {
			if _, err := elsewhere.Exec(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	}
	asOperator := postgres.Options{Config: dbs.Lock.Config(t, "t_operator"), Purpose: postgres.Changing}
	return &scenario.Rewind{
		Backup: func(ctx context.Context) error {
			return do(ctx, `DROP DATABASE `+saved.Name, `CREATE DATABASE `+saved.Name+` TEMPLATE `+name+` OWNER dlock_owner`)
		},
		PutBack: func(ctx context.Context) error {
			return do(ctx, `DROP DATABASE `+lost.Name, `ALTER DATABASE `+name+` RENAME TO `+lost.Name, `ALTER DATABASE `+saved.Name+` RENAME TO `+name)
		},
		Observe: func(ctx context.Context) (*pgx.Conn, error) { return pgx.ConnectConfig(ctx, asOperator.Config) },
		Stores: func(ctx context.Context) (restore.Stores, func(context.Context), error) {
			lock, err := postgres.OpenRewinder(ctx, postgres.RewindOptions{Options: asOperator})
			if err != nil {
				return restore.Stores{}, nil, err
			}
			pay, err := floor.Open(ctx, floor.Options{Options: paystore.Options{Config: dbs.Pay.Config(t, "t_operator"), Purpose: paystore.Changing}})
			return restore.Stores{Lock: lock, Pay: pay}, func(ctx context.Context) { lock.Close(ctx); pay.Close(ctx) }, err
		},
		FastForward: restore.FastForward,
	}
}

// failed lists the steps that are not as expected, and logs what was seen.
func failed(t *testing.T, steps []scenario.DrillStep) []string {
	t.Helper()
	found := []string{}
	for _, s := range steps {
		if s.Verdict != scenario.Passed {
			found = append(found, s.Step)
			t.Logf("%s: %s", s.Step, s.Seen)
		}
	}
	if scenario.AllPassed(steps) != (len(found) == 0) {
		t.Errorf("AllPassed = %t with the failed steps %v", scenario.AllPassed(steps), found)
	}
	return found
}

// Every step of the drill is as expected, each with its token: forgotten tokens
// are never issued again, and whoever carries one is refused at both points.
//
// Clauses: K-7.4, K-7.5, K-7.6, K-7.8, K-1.3
// Mutation: any of TestDrillRestoreNotices.
func TestDrillRestore(t *testing.T) {
	t.Parallel()
	for _, major := range pgtest.Majors() {
		cast, _ := newCast(t, major)
		steps := scenario.DrillRestore(t.Context(), cast)
		if wrong := failed(t, steps); len(wrong) > 0 {
			t.Errorf("PostgreSQL %d: %v", major, wrong)
		}
		tokens := map[string]lockstore.Token{}
		for _, s := range steps {
			tokens[s.Step] = s.Token
		}
		if forgotten := tokens["account_fenced"]; forgotten <= tokens["set_back"] || tokens["first_token"] <= forgotten || tokens["rail_fenced"] != forgotten {
			t.Errorf("PostgreSQL %d: the report's tokens are %v", major, tokens)
		}
	}
}

// A promotion is told apart by its timeline; a standby of its own has
// test/e2e/testdata/drill_failover.txtar.
//
// Clauses: K-7.1, K-7.6
// Mutation: look for paydb's token alone in newcomer_refused.
func TestDrillFailover(t *testing.T) {
	t.Parallel()
	cast, dbs := newCast(t, 16)
	cast.Rewind.Promoted = true
	putBack := cast.Rewind.PutBack
	cast.Rewind.PutBack = func(ctx context.Context) error {
		if err := putBack(ctx); err != nil {
			return err
		}
		conn, err := pgx.ConnectConfig(ctx, dbs.Lock.Config(t, "super"))
		if err != nil {
			return err
		}
		defer conn.Close(ctx)
		_, err = conn.Exec(ctx, `UPDATE lock_gate SET timeline_id = timeline_id + 1`)
		return err
	}
	if wrong := failed(t, scenario.DrillRestore(t.Context(), cast)); len(wrong) > 0 {
		t.Error(wrong)
	}
}

// What is taken out is named by the step that rests on it.
//
// Clauses: K-7.6, K-7.8
// Mutation: drop newcomer_refused, set_back, fault, sign, account_fenced or rail_fenced
// from the drill.
func TestDrillRestoreNotices(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		take func(t *testing.T, cast *scenario.Cast, dbs pgtest.Databases)
		want []string
	}{
		"nobody compares with paydb": {func(t *testing.T, cast *scenario.Cast, dbs pgtest.Databases) {
			cast.Open = func(ctx context.Context) (lockstore.Store, error) {
				return postgres.Open(ctx, postgres.Options{Config: dbs.Lock.Config(t, "t_lockapp"), Purpose: postgres.Granting, MaxConns: 1})
			}
		}, []string{"newcomer_refused"}},
		"lockdb is not set back": {func(_ *testing.T, cast *scenario.Cast, _ pgtest.Databases) {
			cast.Rewind.PutBack = func(context.Context) error { return nil }
		}, []string{"set_back", "fault"}},
		"no timeline has changed": {func(_ *testing.T, cast *scenario.Cast, _ pgtest.Databases) {
			cast.Rewind.Promoted = true
		}, []string{"newcomer_refused", "sign"}},
		"the floors stay low": {func(t *testing.T, cast *scenario.Cast, dbs pgtest.Databases) {
			super := dbs.Pay.Conn(t, "super")
			cast.Rewind.FastForward = func(ctx context.Context, stores restore.Stores, opts restore.Options) (restore.Result, error) {
				result, err := restore.FastForward(ctx, stores, opts)
				if err == nil {
					_, err = super.Exec(ctx, `ALTER TABLE fence_floor DISABLE TRIGGER fence_floor_guard; UPDATE fence_floor SET floor_token = 0`)
				}
				return result, err
			}
		}, []string{"account_fenced", "rail_fenced"}},
		"nobody moves it forward": {func(_ *testing.T, cast *scenario.Cast, _ pgtest.Databases) {
			cast.Rewind.FastForward = func(context.Context, restore.Stores, restore.Options) (restore.Result, error) {
				return restore.Result{Outcome: restore.Advanced, GateOpen: true}, nil
			}
		}, []string{"fast_forward", "leases_void", "played"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cast, dbs := newCast(t, 16)
			c.take(t, &cast, dbs)
			wrong := failed(t, scenario.DrillRestore(t.Context(), cast))
			for _, want := range c.want {
				if !slices.Contains(wrong, want) {
					t.Errorf("failed steps %v, want %s", wrong, want)
				}
			}
		})
	}
}

// forgiving renews what is lost.
type forgiving struct{ lockstore.Store }

func (f forgiving) Renew(ctx context.Context, key string, token lockstore.Token, ttl time.Duration) (lockstore.Grant, error) {
	grant, _ := f.Store.Renew(ctx, key, token, ttl)
	return grant, nil
}

// Clauses: K-2.6, K-4.1, K-4.2
// Mutation: drop renew_refused from the story.
func TestDrillStaleHolder(t *testing.T) {
	t.Parallel()
	cast, _ := newCast(t, 16)
	if wrong := failed(t, scenario.DrillStaleHolder(t.Context(), cast)); len(wrong) > 0 {
		t.Errorf("failed steps %v", wrong)
	}
	cast, _ = newCast(t, 16)
	open := cast.Open
	cast.Open = func(ctx context.Context) (lockstore.Store, error) {
		store, err := open(ctx)
		return forgiving{store}, err
	}
	if diff := cmp.Diff([]string{"renew_refused"}, failed(t, scenario.DrillStaleHolder(t.Context(), cast))); diff != "" {
		t.Errorf("with a store that renews what is lost (-want +got):\n%s", diff)
	}
}

// In place nothing is written to paydb that stays, and what was opened in lockdb is
// ended, also when the story breaks off; a database that lets the stale holder write
// is noticed.
//
// Clauses: K-4.1, K-4.2
// Mutation: commit the transaction of enforced; leave tidy out; drop account_fenced or
// rail_fenced.
func TestDrillStaleHolderInPlace(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before []string
		want   []string
	}{
		"as it is": {nil, []string{}},
		"without the guard of the mark": {[]string{
			`CREATE SEQUENCE rising START 1000`,
			`CREATE FUNCTION raise_it() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS 'BEGIN NEW.highest_token := nextval(''rising''); RETURN NEW; END'`,
			`CREATE TRIGGER a_raise BEFORE INSERT ON rail_high_water FOR EACH ROW EXECUTE FUNCTION raise_it()`,
		}, []string{"rail_fenced"}},
		"without the fence of the account": {[]string{
			`CREATE FUNCTION lower_it() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.fence := OLD.fence; RETURN NEW; END'`,
			`CREATE TRIGGER a_lower BEFORE UPDATE ON account FOR EACH ROW EXECUTE FUNCTION lower_it()`,
		}, []string{"account_fenced"}},
		"it breaks off": {[]string{`ALTER TABLE account RENAME TO hidden`}, []string{"played"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cast, dbs := newCast(t, 16)
			cast.Owner = dbs.Pay.Conn(t, "t_operator")
			super := dbs.Pay.Conn(t, "super")
			for _, sql := range c.before {
				if _, err := super.Exec(t.Context(), sql); err != nil {
					t.Fatalf("%s: %v", sql, err)
				}
			}
			if diff := cmp.Diff(c.want, failed(t, scenario.DrillStaleHolderInPlace(t.Context(), cast))); diff != "" {
				t.Errorf("failed steps (-want +got):\n%s", diff)
			}
			var left int
			err := dbs.Lock.Conn(t, "super").QueryRow(t.Context(), `SELECT (SELECT count(*) FROM lock_entry) + (SELECT count(*) FROM lock_session)`).Scan(&left)
			if err != nil || left != 0 {
				t.Errorf("locks and sessions that are left: %d, %v", left, err)
			}
		})
	}
}

// What is tried in place is C1's own, which the services send, and PostgreSQL takes it.
//
// Clauses: K-4.1
// Mutation: change a letter of queries/debit.sql or queries/mark.sql.
func TestStatementsAreTheStores(t *testing.T) {
	t.Parallel()
	conn := pgtest.Migrated(t, 16).Pay.Conn(t, "super")
	for name, sql := range scenario.Statements() {
		if _, err := conn.Prepare(t.Context(), name, sql); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, store := range map[string]string{"debit": "../paystore/posting", "mark": "../paystore/rail"} {
		if diff := cmp.Diff(statement(t, store, name), statement(t, ".", name)); diff != "" {
			t.Errorf("%s (-store +drill):\n%s", name, diff)
		}
	}
}

// statement is a file without its comments.
func statement(t *testing.T, folder, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, "queries", name+".sql"))
	if err != nil {
		t.Fatal(err)
	}
	var sql strings.Builder
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "--") {
			sql.WriteString(line)
		}
	}
	return sql.String()
}
