package paystore_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/flyway"
	"github.com/dlockctl/dlockctl/internal/instance"
	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/pgtest"
)

func open(t *testing.T, opts paystore.Options) *paystore.DB {
	t.Helper()
	db, err := paystore.Open(t.Context(), opts)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(db.Close)
	return db
}

func changing(t *testing.T, dbs pgtest.Databases) paystore.Options {
	t.Helper()
	return paystore.Options{Config: dbs.Pay.Config(t, "t_resource"), Purpose: paystore.Changing}
}

// The guards are the schema's: all that its migrations enable, and each taken away is
// named with the statement that puts it back. What moves no money may still be read.
//
// Clauses: K-1.1, K-4.10
// Mutation: drop a trigger from Guards(), or checkGuards from check.
func TestOpenRefusesWithoutAGuard(t *testing.T) {
	t.Parallel()
	for _, major := range pgtest.Majors() {
		t.Run(fmt.Sprint(major), func(t *testing.T) {
			t.Parallel()
			dbs := pgtest.Migrated(t, major)
			super := dbs.Pay.Conn(t, "super")
			rows, err := super.Query(t.Context(), `SELECT c.relname || '.' || t.tgname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
				WHERE NOT t.tgisinternal ORDER BY 1`)
			if err != nil {
				t.Fatal(err)
			}
			made, err := pgx.CollectRows(rows, pgx.RowTo[string])
			if err != nil {
				t.Fatal(err)
			}
			slices.Sort(made)
			guards := slices.Sorted(slices.Values(paystore.Guards()))
			if diff := cmp.Diff(made, guards); diff != "" {
				t.Fatalf("guards (-migrated +Guards):\n%s", diff)
			}
			for i, guard := range guards {
				table, trigger, _ := strings.Cut(guard, ".")
				fault := []string{"DISABLE TRIGGER", "ENABLE TRIGGER", "ENABLE REPLICA TRIGGER"}[i%3]
				if _, err := super.Exec(t.Context(), fmt.Sprintf("ALTER TABLE %s %s %s", table, fault, trigger)); err != nil {
					t.Fatal(err)
				}
				_, err := paystore.Open(t.Context(), changing(t, dbs))
				unsafe, ok := errors.AsType[*paystore.UnsafeError](err)
				if !ok || unsafe.Clause != "K-4.10" || !strings.Contains(unsafe.Problem, trigger+" on "+table) {
					t.Fatalf("%s: %v", guard, err)
				}
				open(t, paystore.Options{Config: dbs.Pay.Config(t, "t_auditor")}).Close()
				_, fix, _ := strings.Cut(unsafe.Fix, ": ")
				if _, err := super.Exec(t.Context(), fix); err != nil {
					t.Fatal(err)
				}
			}
			open(t, changing(t, dbs))
		})
	}
}

// Locks and money on one instance are refused, whether lockdb's address is known or
// only what was recorded; nothing known is refused too, and reading goes on.
//
// Clauses: K-6.1, K-6.2
// Mutation: drop checkSeparate, or its "known" case, refuse whenever lockdb is down, or ask it without a bound.
func TestOpenRefusesOneInstance(t *testing.T) {
	t.Parallel()
	dbs := pgtest.Migrated(t, 16)
	super := dbs.Pay.Conn(t, "super")
	exec := func(sql string) {
		t.Helper()
		if _, err := super.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(name string, opts paystore.Options) {
		t.Helper()
		if _, err := paystore.Open(t.Context(), opts); !errors.Is(err, paystore.ErrSameInstance) {
			t.Errorf("%s: %v, want ErrSameInstance", name, err)
		}
		opts.AllowSameInstance = true
		open(t, opts)
		opts.AllowSameInstance, opts.Purpose = false, paystore.Reading
		open(t, opts)
	}
	same, apart, away := changing(t, dbs), changing(t, dbs), changing(t, dbs)
	same.PeerConfig = dbs.Pay.Config(t, "t_auditor")
	refused("lockdb's address is on paydb's instance", same)
	apart.PeerConfig = dbs.Lock.Config(t, "t_lockapp")
	open(t, apart)

	exec(`UPDATE peer_instance SET system_identifier = (SELECT system_identifier FROM pg_control_system())`)
	refused("what was recorded", changing(t, dbs))
	// lockdb is down: what was recorded of it is enough, and without that nothing
	// shows that it is elsewhere.
	away.PeerConfig = dbs.Lock.Config(t, "t_lockapp")
	away.PeerConfig.Port, away.PeerConfig.Fallbacks = 1, nil
	exec(`UPDATE peer_instance SET system_identifier = system_identifier + 1`)
	open(t, away)
	silent := away
	silent.PeerConfig = pgtest.Silent(t) // it is up, and answers nothing
	open(t, silent)
	exec(`DELETE FROM peer_instance`)
	if _, err := paystore.Open(t.Context(), away); !isUnreachable(err) {
		t.Errorf("lockdb down and nothing recorded: %v, want unreachable", err)
	}
	if _, err := paystore.Open(t.Context(), silent); !isUnreachable(err) {
		t.Errorf("lockdb silent and nothing recorded: %v, want unreachable", err)
	}
	_, err := paystore.Open(t.Context(), changing(t, dbs))
	if unsafe, ok := errors.AsType[*paystore.UnsafeError](err); !ok || unsafe.Clause != "K-6.1" {
		t.Errorf("nothing recorded: %v, want K-6.1", err)
	}
}

func isUnreachable(err error) bool {
	_, ok := errors.AsType[*paystore.UnreachableError](err)
	return ok
}

// A marked database takes changes only from who names its mark; reading goes on.
//
// Mutation: drop CheckEnvironment from check.
func TestOpenComparesTheEnvironment(t *testing.T) {
	t.Parallel()
	dbs := pgtest.Migrated(t, 16)
	if err := instance.MarkEnvironment(t.Context(), dbs.Pay.Conn(t, "t_owner"), "paydb", "prod-eu"); err != nil {
		t.Fatal(err)
	}
	for configured, refused := range map[string]bool{"": true, "staging": true, "prod-eu": false} {
		opts := changing(t, dbs)
		opts.Environment = configured
		db, err := paystore.Open(t.Context(), opts)
		if _, other := errors.AsType[*instance.EnvironmentError](err); other != refused {
			t.Errorf("configured %q: %v", configured, err)
		}
		if err == nil {
			db.Close()
		}
	}
	open(t, paystore.Options{Config: dbs.Pay.Config(t, "t_auditor")})
}

// A schema that is too old or too new is refused by its number, an edited or half-done
// one by its file, and lockdb by its name. The seeds are part of it where they are.
//
// Clauses: K-9.3, K-9.4
// Mutation: drop the comparison with the files from checkSchema, or the seeds from paydbFiles.
func TestOpenRefusesAnUnknownSchema(t *testing.T) {
	t.Parallel()
	dbs := pgtest.Migrated(t, 16)
	super := dbs.Pay.Conn(t, "super")
	exec := func(sql string) {
		t.Helper()
		if _, err := super.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(name string, config *pgx.ConnConfig, want paystore.SchemaError) {
		t.Helper()
		_, err := paystore.Open(t.Context(), paystore.Options{Config: config})
		if got, ok := errors.AsType[*paystore.SchemaError](err); !ok || got.Have != want.Have || got.IsLockdb != want.IsLockdb || err.Error() == "" {
			t.Errorf("%s: %v, want %+v", name, err, want)
		}
	}
	inHistory := func(name string, kind flyway.Kind) {
		t.Helper()
		_, err := paystore.Open(t.Context(), paystore.Options{Config: dbs.Pay.Config(t, "t_auditor")})
		if got, ok := errors.AsType[*flyway.HistoryError](err); !ok || got.Findings[0].Kind != kind {
			t.Errorf("%s: %v, want %s", name, err, kind)
		}
	}
	refused("empty", pgtest.Servers(t, 16).Pay.EmptyDB(t).Config(t, "t_auditor"), paystore.SchemaError{})
	refused("lockdb", dbs.Lock.Config(t, "t_auditor"), paystore.SchemaError{IsLockdb: true})
	exec(`INSERT INTO flyway_schema_history (installed_rank, version, description, type, script, installed_by, execution_time, success)
		VALUES (900, '900', 'later', 'SQL', 'V900__later.sql', 'x', 1, true)`)
	refused("newer", dbs.Pay.Config(t, "t_auditor"), paystore.SchemaError{Have: 900})
	exec(`DELETE FROM flyway_schema_history WHERE version = '900'`)
	exec(`UPDATE flyway_schema_history SET success = false WHERE version = '7'`)
	inHistory("half-way", flyway.KindFailed)
	exec(`UPDATE flyway_schema_history SET success = true WHERE version = '7'`)
	exec(`UPDATE flyway_schema_history SET checksum = checksum + 1 WHERE version = '9'`)
	inHistory("edited", flyway.KindEdited)
	if paystore.MinSchema > paystore.MaxSchema {
		t.Errorf("versions %d to %d", paystore.MinSchema, paystore.MaxSchema)
	}
}

// Nothing is decided from a standby.
//
// Clauses: K-6.3
// Mutation: drop the InRecovery check.
func TestOpenRefusesAStandby(t *testing.T) {
	t.Parallel()
	single := pgtest.Crashable(t, 16)
	single.Stop(t)
	if err := os.WriteFile(filepath.Join(single.Dir, "data", "standby.signal"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	single.Start(t)
	config := pgtest.DB{Server: single.Server, Name: "postgres"}.Config(t, "super")
	if _, err := paystore.Open(t.Context(), paystore.Options{Config: config}); !errors.Is(err, paystore.ErrNotPrimary) {
		t.Errorf("open on a standby: %v, want ErrNotPrimary", err)
	}
}

// A primary demoted under a running DB: one clear error, and the connections to it are
// dropped.
//
// Clauses: K-6.3
// Mutation: drop the 25006 case of classify.
func TestDemotedPrimary(t *testing.T) {
	t.Parallel()
	dbs := pgtest.Migrated(t, 16)
	super := dbs.Pay.Conn(t, "super")
	set := func(what string) {
		t.Helper()
		if _, err := super.Exec(t.Context(), `ALTER ROLE t_resource IN DATABASE `+pgx.Identifier{dbs.Pay.Name}.Sanitize()+" "+what); err != nil {
			t.Fatal(err)
		}
	}
	set(`SET default_transaction_read_only = on`)
	db := open(t, changing(t, dbs))
	touch := func() error {
		return db.Transaction(t.Context(), "touch a payout", "", func(tx pgx.Tx) error {
			_, err := tx.Exec(t.Context(), `UPDATE payout SET updated_at = now()`)
			return err
		})
	}
	if err := touch(); !errors.Is(err, paystore.ErrNotPrimary) {
		t.Fatalf("on a read-only server: %v, want ErrNotPrimary", err)
	}
	set(`RESET default_transaction_read_only`)
	if err := touch(); err != nil {
		t.Errorf("after the connections were dropped: %v", err)
	}
}

// A port that nobody serves and a wrong password are unreachable, never unknown, and
// no secret is told.
//
// Mutation: classify what happens before BEGIN as unknown.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	dbs := pgtest.Migrated(t, 16)
	closed, wrong := dbs.Pay.Config(t, "t_resource"), dbs.Pay.Config(t, "t_resource")
	closed.Port, closed.Fallbacks, wrong.Password = 1, nil, "planted-secret"
	for name, config := range map[string]*pgx.ConnConfig{"closed port": closed, "wrong password": wrong} {
		_, err := paystore.Open(t.Context(), paystore.Options{Config: config})
		if !isUnreachable(err) || strings.Contains(err.Error(), "planted-secret") {
			t.Errorf("%s: %v, want unreachable", name, err)
		}
	}
}

// Whatever the role's defaults are, a change waits no longer than it may, commits for
// good and is READ COMMITTED, directly and behind a pooler.
//
// Clauses: K-2.11, K-1.4, K-12.3
// Mutation: leave a setting out of pgtx.Settings or sessionSettings.
func TestTransactionSettings(t *testing.T) {
	t.Parallel()
	dbs := pgtest.Migrated(t, 16)
	super := dbs.Pay.Conn(t, "super")
	for _, setting := range []string{"default_transaction_isolation = 'repeatable read'", "synchronous_commit = off", "lock_timeout = 0"} {
		if _, err := super.Exec(t.Context(), `ALTER ROLE t_resource IN DATABASE `+pgx.Identifier{dbs.Pay.Name}.Sanitize()+" SET "+setting); err != nil {
			t.Fatal(err)
		}
	}
	const look = `SELECT current_setting('transaction_isolation') || ' ' || current_setting('synchronous_commit') || ' ' || current_setting('lock_timeout')`
	for _, pooled := range []bool{false, true} {
		opts := changing(t, dbs)
		opts.LockTimeout, opts.Pooled = 1234*time.Millisecond, pooled
		db := open(t, opts)
		var alone, among string
		err := errors.Join(
			db.Change(t.Context(), "look", "", look, nil, func(rows pgx.Rows) (err error) {
				alone, err = pgx.CollectExactlyOneRow(rows, pgx.RowTo[string])
				return err
			}),
			db.Transaction(t.Context(), "look", "", func(tx pgx.Tx) error { return tx.QueryRow(t.Context(), look).Scan(&among) }))
		const want = "read committed on 1234ms"
		if err != nil || alone != want || among != want {
			t.Errorf("pooled %t: a statement alone has %q, a transaction %q, %v, want %q", pooled, alone, among, err, want)
		}
	}
}
