package postgres_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/flyway"
	"github.com/dlockctl/dlockctl/internal/instance"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
	"github.com/dlockctl/dlockctl/internal/pgtest"
)

// Each guard taken away is named, with a statement that puts it back; the store
// opens for granting again once that has been run, word for word.
//
// Clauses: K-1.1, K-1.5
// Mutation: drop a trigger from Guards(), or a row of checkSequence.
func TestOpenRefusesWithoutAGuard(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, b bundle) {
		for _, tt := range []struct{ fault, clause, says string }{
			{`ALTER TABLE lock_entry DISABLE TRIGGER lock_entry_order`, "K-1.1", "lock_entry_order"},
			{`ALTER TABLE lock_entry ENABLE TRIGGER lock_entry_guard`, "K-1.1", "lock_entry_guard"},
			{`ALTER TABLE lock_entry ENABLE REPLICA TRIGGER lock_entry_gate`, "K-1.1", "lock_entry_gate"},
			{`ALTER TABLE lock_session DISABLE TRIGGER lock_session_guard`, "K-1.1", "lock_session_guard"},
			{`ALTER TABLE lock_entry DISABLE TRIGGER lock_grant_move`, "K-1.1", "lock_grant_move"},
			{`ALTER TABLE lock_revocation DISABLE TRIGGER lock_revocation_append_only`, "K-1.1", "append_only"},
			{`ALTER SEQUENCE fencing_token_seq CACHE 20`, "K-1.5", "CACHE 20"},
			{`ALTER SEQUENCE fencing_token_seq CYCLE`, "K-1.5", "CYCLE"},
			{`ALTER SEQUENCE fencing_token_seq INCREMENT BY 2`, "K-1.5", "INCREMENT 2"},
			{`ALTER SEQUENCE fencing_token_seq AS integer`, "K-1.5", "integer"},
			{`ALTER SEQUENCE fencing_token_seq SET UNLOGGED`, "K-1.5", "not logged"},
		} {
			b.exec(t, tt.fault)
			_, err := postgres.Open(t.Context(), options(t, b.dbs))
			unsafe, ok := errors.AsType[*lockstore.UnsafeError](err)
			if !ok || unsafe.Clause != tt.clause || !strings.Contains(unsafe.Problem, tt.says) {
				t.Fatalf("%s: %v, want %s about %s", tt.fault, err, tt.clause, tt.says)
			}
			// What grants nothing may still be read and released.
			changing := options(t, b.dbs)
			changing.Purpose = postgres.Changing
			open(t, changing)
			_, fix, _ := strings.Cut(unsafe.Fix, ": ")
			b.exec(t, "SET ROLE dlock_owner")
			b.exec(t, fix)
			b.exec(t, "RESET ROLE")
			open(t, options(t, b.dbs))
		}
	})
}

// A closed gate, or one that knows another instance or timeline, is told at
// open and to each grant of a store that was open before; reading and releasing
// go on.
//
// Clauses: K-7.4, K-7.6
// Mutation: drop checkGate, or the 55000 case of classify.
func TestClosedGate(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, b bundle) {
		alice := b.session(t, "alice")
		grant := b.acquire(t, "k", "alice", alice, time.Hour)
		for _, tt := range []struct{ shut, open, says, hint string }{
			{
				`UPDATE lock_gate SET closed_by = 'erin', closed_at = now(), closed_reason = 'restore drill'`,
				`UPDATE lock_gate SET closed_by = NULL, closed_at = NULL, closed_reason = NULL`, "restore drill", "dlockctl thaw",
			},
			{`UPDATE lock_gate SET timeline_id = timeline_id - 1`, `UPDATE lock_gate SET timeline_id = timeline_id + 1`, "restored, promoted or copied", "dlockctl restore plan"},
			{`UPDATE lock_gate SET system_identifier = system_identifier - 1`, `UPDATE lock_gate SET system_identifier = system_identifier + 1`, "restored", "dlockctl restore plan"},
		} {
			b.exec(t, tt.shut)
			_, opened := postgres.Open(t.Context(), options(t, b.dbs))
			_, acquired := b.store.Acquire(t.Context(), lockstore.AcquireParams{Key: "k", Owner: "alice", Session: alice, TTL: time.Minute})
			for _, err := range []error{opened, acquired} {
				closed, ok := errors.AsType[*lockstore.GrantsClosedError](err)
				if !ok || !strings.Contains(closed.Reason, tt.says) || !strings.Contains(closed.Hint, tt.hint) {
					t.Errorf("%s: %+v (%v)", tt.shut, closed, err)
				}
			}
			if _, err := b.store.Renew(t.Context(), "k", grant.Token, time.Hour); err != nil {
				t.Errorf("%s: renew: %v", tt.shut, err)
			}
			b.exec(t, tt.open)
			grant = b.acquire(t, "k", "alice", alice, time.Hour)
		}
	})
}

// Locks and money on one instance are refused, whether paydb's address is known
// or only what was recorded; nothing known is refused too.
//
// Clauses: K-6.1, K-6.2
// Mutation: drop checkSeparate, or its "known" case, refuse whenever paydb is down, or ask it without a bound.
func TestOpenRefusesOneInstance(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	refused := func(name string, want error, change func(*postgres.Options)) {
		t.Helper()
		for _, purpose := range []postgres.Purpose{postgres.Changing, postgres.Granting} {
			opts := options(t, b.dbs)
			opts.Purpose = purpose
			change(&opts)
			if _, err := postgres.Open(t.Context(), opts); !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", name, err, want)
			}
			opts.AllowSameInstance = true
			open(t, opts)
		}
		opts := options(t, b.dbs)
		change(&opts)
		opts.Purpose = postgres.Reading
		open(t, opts)
	}
	refused("paydb's address is on lockdb's instance", lockstore.ErrSameInstance, func(o *postgres.Options) { o.PeerConfig = b.dbs.Lock.Config(t, "t_resource") })
	withPeer := options(t, b.dbs)
	withPeer.PeerConfig = b.dbs.Pay.Config(t, "t_resource")
	open(t, withPeer)

	b.exec(t, `INSERT INTO peer_instance (system_identifier) SELECT system_identifier FROM pg_control_system()
		ON CONFLICT (one) DO UPDATE SET system_identifier = EXCLUDED.system_identifier`)
	refused("what was recorded", lockstore.ErrSameInstance, func(*postgres.Options) {})
	// paydb is down: what was recorded of it is enough, and without that nothing
	// shows that it is elsewhere.
	away := options(t, b.dbs)
	away.PeerConfig = b.dbs.Pay.Config(t, "t_resource")
	away.PeerConfig.Port, away.PeerConfig.Fallbacks = 1, nil
	b.exec(t, `UPDATE peer_instance SET system_identifier = system_identifier + 1`)
	open(t, away)
	silent := away
	silent.PeerConfig = pgtest.Silent(t) // it is up, and answers nothing
	open(t, silent)
	b.exec(t, `DELETE FROM peer_instance`)
	if _, err := postgres.Open(t.Context(), away); !isUnreachable(err) {
		t.Errorf("paydb down and nothing recorded: %v, want unreachable", err)
	}
	if _, err := postgres.Open(t.Context(), silent); !isUnreachable(err) {
		t.Errorf("paydb silent and nothing recorded: %v, want unreachable", err)
	}
	_, err := postgres.Open(t.Context(), options(t, b.dbs))
	if unsafe, ok := errors.AsType[*lockstore.UnsafeError](err); !ok || unsafe.Clause != "K-6.1" {
		t.Errorf("nothing recorded: %v, want K-6.1", err)
	}
}

// A marked database takes writes only from who names its mark; reading goes on.
func TestOpenComparesTheEnvironment(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	owner := b.dbs.Lock.Conn(t, "t_owner")
	if err := instance.MarkEnvironment(t.Context(), owner, "lockdb", "Prod EU"); err == nil {
		t.Error("a mark that is hard to type was accepted")
	}
	for range 2 { // the same mark again changes nothing
		if err := instance.MarkEnvironment(t.Context(), owner, "lockdb", "prod-eu"); err != nil {
			t.Fatal(err)
		}
	}
	if err := instance.MarkEnvironment(t.Context(), owner, "lockdb", "staging"); !isOtherEnvironment(err) {
		t.Errorf("another mark: %v, want refused", err)
	}
	for _, purpose := range []postgres.Purpose{postgres.Changing, postgres.Granting} {
		for configured, refused := range map[string]bool{"": true, "staging": true, "prod-eu": false} {
			opts := options(t, b.dbs)
			opts.Purpose, opts.Environment = purpose, configured
			store, err := postgres.Open(t.Context(), opts)
			if isOtherEnvironment(err) != refused {
				t.Errorf("configured %q: %v", configured, err)
			}
			if err == nil {
				store.Close()
			}
		}
	}
	opts := options(t, b.dbs)
	opts.Purpose = postgres.Reading
	open(t, opts)
}

func isUnreachable(err error) bool {
	_, ok := errors.AsType[*lockstore.UnreachableError](err)
	return ok
}

func isOtherEnvironment(err error) bool {
	_, ok := errors.AsType[*instance.EnvironmentError](err)
	return ok
}

// A schema that is too old or too new is refused by its number, an edited or
// half-done one by its file, and paydb by its name.
//
// Clauses: K-9.3
// Mutation: drop the comparison with the files from checkSchema.
func TestOpenRefusesAnUnknownSchema(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	empty := pgtest.Servers(t, 16).Lock.EmptyDB(t)
	refused := func(name string, config *pgx.ConnConfig, want lockstore.SchemaError) {
		t.Helper()
		_, err := postgres.Open(t.Context(), postgres.Options{Config: config})
		if got, ok := errors.AsType[*lockstore.SchemaError](err); !ok || got.Have != want.Have || got.IsPaydb != want.IsPaydb {
			t.Errorf("%s: %v, want %+v", name, err, want)
		}
	}
	halfWay := func(name string, kind flyway.Kind, change string) {
		t.Helper()
		b.exec(t, change)
		_, err := postgres.Open(t.Context(), postgres.Options{Config: b.dbs.Lock.Config(t, "t_lockapp")})
		if got, ok := errors.AsType[*flyway.HistoryError](err); !ok || got.Findings[0].Kind != kind {
			t.Errorf("%s: %v, want %s", name, err, kind)
		}
	}
	refused("empty", empty.Config(t, "t_lockapp"), lockstore.SchemaError{})
	row := `INSERT INTO flyway_schema_history (installed_rank, version, description, type, script, installed_by, execution_time, success) VALUES (900, '900', 'later', 'SQL', 'V900__later.sql', 'x', 1, true)`
	b.exec(t, row)
	refused("newer", b.dbs.Lock.Config(t, "t_lockapp"), lockstore.SchemaError{Have: 900})
	refused("paydb", b.dbs.Pay.Config(t, "t_auditor"), lockstore.SchemaError{IsPaydb: true})
	b.exec(t, `DELETE FROM flyway_schema_history WHERE version = '900'`)
	halfWay("half-way", flyway.KindFailed, `UPDATE flyway_schema_history SET success = false WHERE version = '7'`)
	b.exec(t, `UPDATE flyway_schema_history SET success = true WHERE version = '7'`)
	halfWay("edited", flyway.KindEdited, `UPDATE flyway_schema_history SET checksum = checksum + 1 WHERE version = '3'`)
}

// Nothing is decided from a standby: the store says so in one line.
//
// Clauses: K-6.3
// Mutation: drop the InRecovery check.
func TestOpenRefusesAStandby(t *testing.T) {
	t.Parallel()
	single := pgtest.Crashable(t, 16)
	single.Stop(t)
	signal := filepath.Join(single.Dir, "data", "standby.signal")
	if err := os.WriteFile(signal, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	single.Start(t)
	for _, purpose := range []postgres.Purpose{postgres.Reading, postgres.Granting} {
		if _, err := postgres.Open(t.Context(), postgres.Options{Config: (pgtest.DB{Server: single.Server, Name: "postgres"}).Config(t, "super"), Purpose: purpose}); !errors.Is(err, lockstore.ErrNotPrimary) {
			t.Errorf("open on a standby: %v, want ErrNotPrimary", err)
		}
	}
}

// A primary demoted under a running store: one clear error, and the connections
// to it are dropped.
//
// Clauses: K-6.3
// Mutation: drop the 25006 case of classify.
func TestDemotedPrimary(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	session := b.session(t, "alice")
	b.exec(t, `ALTER ROLE t_lockapp IN DATABASE `+pgx.Identifier{b.dbs.Lock.Name}.Sanitize()+` SET default_transaction_read_only = on`)
	readOnly := open(t, options(t, b.dbs))
	_, err := readOnly.Acquire(t.Context(), lockstore.AcquireParams{Key: "k", Owner: "alice", Session: session, TTL: time.Minute})
	if !errors.Is(err, lockstore.ErrNotPrimary) {
		t.Fatalf("acquire on a read-only server: %v, want ErrNotPrimary", err)
	}
	b.exec(t, `ALTER ROLE t_lockapp IN DATABASE `+pgx.Identifier{b.dbs.Lock.Name}.Sanitize()+` RESET default_transaction_read_only`)
	// New connections see the new state; the old ones would go on refusing.
	if _, err := readOnly.Acquire(t.Context(), lockstore.AcquireParams{Key: "k", Owner: "alice", Session: session, TTL: time.Minute}); err != nil {
		t.Errorf("acquire after the connections were dropped: %v", err)
	}
}

// A host that is not there, a port that nobody serves and a wrong password are
// unreachable, never unknown, and no secret is told.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	dbs := pgtest.Migrated(t, 16)
	closed := dbs.Lock.Config(t, "t_lockapp")
	closed.Port = 1
	wrong := dbs.Lock.Config(t, "t_lockapp")
	wrong.Password = "planted-secret"
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for name, config := range map[string]*pgx.ConnConfig{"closed port": closed, "wrong password": wrong} {
		_, err := postgres.Open(ctx, postgres.Options{Config: config})
		if _, ok := errors.AsType[*lockstore.UnreachableError](err); !ok {
			t.Errorf("%s: %v, want unreachable", name, err)
		}
		if err != nil && strings.Contains(err.Error(), "planted-secret") {
			t.Errorf("%s: the password is in %v", name, err)
		}
	}
}
