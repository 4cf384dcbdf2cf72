package rewind_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/dlockctl/dlockctl/internal/devenv/cluster"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
	"github.com/dlockctl/dlockctl/internal/pgtest"
)

// A lockdb that is restored from a whole dump into another instance grants nobody
// anything, by its gate. One that is restored from a dump of the data alone has the
// gate of its own migration, which is open, and so is one whose sequence was left
// out: paydb tells. Each issues tokens again where nobody looks. (pg_dump is at hand
// for 15.)
//
// Clauses: K-1.1, K-1.3, K-7.2, K-7.3, K-7.6, K-7.8
// Mutation: compare no identifier in lock_gate_check.
func TestDumpIsRestored(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 15)
	primary := newServer(t, "lockdb", 15, nil)
	s := w.serve(t, primary.dsn)
	l := w.begins(t, s)
	whole := dump(t, primary)
	data := dump(t, primary, leftOut("--data-only")...)
	bare := dump(t, primary, append(leftOut("--data-only"), "-T", "fencing_token_seq")...)
	l.goesOn(t, s)
	primary.stop(t, cluster.Immediate)

	for _, tt := range []struct {
		name     string
		restored func(*testing.T) pgtest.DB
		// gated tells that the gate is shut.
		gated bool
		sign  string
	}{
		{"whole", func(t *testing.T) pgtest.DB {
			db := pgtest.Servers(t, 15).Lock.EmptyDB(t)
			load(t, db, whole, "")
			return db
		}, true, "identity"},
		{"data only", func(t *testing.T) pgtest.DB { return loadData(t, data) }, false, "paydb_ahead"},
		{"data only, without the sequence", func(t *testing.T) pgtest.DB { return loadData(t, bare) }, false, "paydb_ahead"},
	} {
		// Forked here, one after the other: nobody is connected to its paydb yet.
		without, with := &life{world: w.fork(t), keeper: l.keeper, idle: l.idle}, *l
		with.world = w.fork(t)
		with.blind = false
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			db := tt.restored(t)
			if tt.gated {
				without.closed(t, db.DSN)
				place(db.DSN).exec(t, noteHere)
			}
			without.damage(t, db.DSN)

			db = tt.restored(t)
			if tt.gated {
				with.closed(t, db.DSN)
			}
			with.withheld(t, db.DSN)
			with.rescued(t, db.DSN, tt.sign)
		})
	}
}

// leftOut is what a dump of the data leaves out: what the migrations of the new
// database wrote themselves, and sessions, locks, their journal and the gate (K-1.1).
func leftOut(args ...string) []string {
	for _, table := range []string{
		"lock_session", "lock_entry", "lock_gate", "lock_grant*",
		"flyway_schema_history", "peer_instance", "deployment", "outside_mark",
	} {
		args = append(args, "-T", table)
	}
	return args
}

// loadData loads the data into a database that was migrated anew.
func loadData(t *testing.T, dump []byte) pgtest.DB {
	t.Helper()
	db := pgtest.Migrated(t, 15).Lock
	load(t, db, dump, "-c session_replication_role=replica")
	return db
}

func dump(t *testing.T, s *server, args ...string) []byte {
	t.Helper()
	return tool(t, "pg_dump", nil, "", append(args, "-Fc", "--no-sync", "-d", s.dsn("super"))...)
}

func load(t *testing.T, db pgtest.DB, dump []byte, options string) {
	t.Helper()
	tool(t, "pg_restore", dump, options, "--exit-on-error", "--single-transaction", "-d", db.DSN("super"))
}

// tool runs a client program of PostgreSQL.
func tool(t *testing.T, name string, stdin []byte, options string, args ...string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	program := filepath.Join(os.Getenv("DLOCKCTL_TEST_PG15"), name)
	if _, err := os.Stat(program); err != nil { // the npm package has no client programs
		if program, err = exec.LookPath(name); err != nil {
			t.Fatalf("%v; install the client programs of PostgreSQL 15 or newer, Debian's package postgresql-client", err)
		}
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdin = bytes.NewReader(stdin)
	cmd.Env = append(os.Environ(), "PGOPTIONS="+options)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v: %s", name, err, errs.String())
	}
	return out.Bytes()
}

// A logical replica that takes over has what was published, and a sequence and a gate
// of its own: its gate is open, its sequence stays behind. Even a lock that it shows
// has another token here than its holder has, for the order trigger draws for a
// replayed row as well.
//
// Clauses: K-1.1, K-1.3, K-7.2, K-7.6, K-7.8
// Mutation: ask paydb nothing in (*detector).open.
func TestLogicalReplicaTakesOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 16)
	primary := newServer(t, "lockdb", 16, nil)
	replica := pgtest.Migrated(t, 16).Lock
	place(primary.dsn).exec(t, `CREATE PUBLICATION locks FOR TABLE lock_session, lock_entry, lock_revocation, operator_log`)
	place(replica.DSN).exec(t, fmt.Sprintf(`CREATE SUBSCRIPTION %s CONNECTION 'host=%s port=%d user=postgres dbname=lockdb' PUBLICATION locks`, replica.Name, primary.Run(), port))
	s := w.serve(t, primary.dsn)
	l := w.begins(t, s)
	super := place(replica.DSN).conn(t)
	becomes(t, super, "the replica has the lock", `SELECT EXISTS (SELECT FROM lock_entry WHERE lock_key = $1)`, l.keeper.lock())
	if token := value[lockstore.Token](t, super, `SELECT fencing_token FROM lock_entry WHERE lock_key = $1`, l.keeper.lock()); token == l.keeper.token {
		t.Errorf("the replica shows token %s, which its own sequence did not issue", token)
	}
	execute(t, super, `ALTER SUBSCRIPTION `+replica.Name+` DISABLE`)
	l.goesOn(t, s)
	primary.stop(t, cluster.Immediate)
	execute(t, super, `ALTER SUBSCRIPTION `+replica.Name+` SET (slot_name = NONE)`)
	execute(t, super, `DROP SUBSCRIPTION `+replica.Name)
	if err := super.Close(t.Context()); err != nil {
		t.Fatal(err)
	}

	without := &life{world: w.fork(t), keeper: l.keeper, idle: l.idle}
	twin := replica.Server.CloneOf(t, replica.Name)
	if store, err := without.openLocks(t, twin.DSN, postgres.Granting); err != nil {
		t.Errorf("who asks nobody is refused: %v", err)
	} else {
		store.Close()
	}
	without.damage(t, twin.DSN)

	l.withheld(t, replica.DSN)
	l.rescued(t, replica.DSN, "paydb_ahead")
}
