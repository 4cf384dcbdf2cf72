//go:build unix

package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/devenv/cluster"
	"github.com/dlockctl/dlockctl/internal/devenv/filelock"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
	"github.com/dlockctl/dlockctl/internal/pgtest"
)

// copyFolder is the plain copy of a data folder, as an operator makes one.
func copyFolder(t *testing.T, from, to string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "cp", "-a", from, to).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// saved copies the data folder of a server that is stopped for it, and returns
// what copies it back.
func saved(t *testing.T, single *pgtest.Single) (back func()) {
	t.Helper()
	data := filepath.Join(single.Dir, "data")
	single.Stop(t)
	copyFolder(t, data, data+".saved")
	single.Start(t)
	return func() {
		t.Helper()
		single.Crash(t)
		if err := os.RemoveAll(data); err != nil {
			t.Fatal(err)
		}
		copyFolder(t, data+".saved", data)
		single.Start(t)
	}
}

// fastForward is one without the floors of a paydb.
func fastForward(t *testing.T, opts postgres.Options, target lockstore.Token) {
	t.Helper()
	opts.Purpose = postgres.Changing
	r, err := postgres.OpenRewinder(t.Context(), postgres.RewindOptions{Options: opts})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close(context.WithoutCancel(t.Context()))
	change := lockstore.GateChange{Operator: "erin", Reason: "restored", Run: uuid.NewString(), Done: target}
	_, err = r.CloseGate(t.Context(), change)
	if err == nil {
		_, err = r.Advance(t.Context(), advanceTo(target))
	}
	if err == nil {
		_, err = r.OpenGate(t.Context(), change)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A data folder that is copied back keeps identifier and timeline, so the gate lets
// pass: the outside mark, paydb's tokens and what this process has shown are each
// enough to refuse, before a number is drawn. Without any of them a client is shown
// a token that another was shown: the control. Only a fast-forward above all that
// ends the refusal of a store that lived through it.
//
// Clauses: K-7.6, K-1.3
// Mutation: drop a comparison of open or compare, or the look for a fast-forward
// from readmit.
func TestDataFolderCopiedBack(t *testing.T) {
	t.Parallel()
	single, db := crashable(t)
	opts := crashableOptions(t, db)
	newClient(t, opts).show(t, 5)
	back := saved(t, single)
	dir := t.TempDir()

	own := newClient(t, opts) // from before there was a mark
	marking := newClient(t, marked(opts, dir))
	shown := marking.show(t, 5)
	marking.Close()
	paid := opts
	paid.PayHighest = func(context.Context) (lockstore.Token, error) { return marking.Shown(), nil }
	open(t, marked(paid, dir)).Close() // what paydb holds was issued
	for token := range own.show(t, 1) {
		shown[token] = true
	}
	back()

	before := lastToken(t, db)
	_, err := postgres.Open(t.Context(), paid)
	closedFor(t, "paydb", err, "paydb holds token "+marking.Shown().String(), plan)
	_, err = postgres.Open(t.Context(), marked(opts, dir))
	closedFor(t, "outside mark", err, "the outside mark", plan)
	pgtest.Eventually(t, "the survivor is refused", func(ctx context.Context) (bool, error) {
		_, err = own.Acquire(ctx, own.params("k"))
		_, closed := errors.AsType[*lockstore.GrantsClosedError](err)
		if err == nil {
			t.Fatal("the survivor was granted a lock")
		}
		return closed, nil // its connections had to be found dead first
	})
	closedFor(t, "own", err, "this process knows", plan)
	if after := lastToken(t, db); after != before {
		t.Errorf("numbers were drawn: %s, then %s", before, after)
	}
	if _, err := own.CreateSession(t.Context(), "alice", time.Hour); err != nil {
		t.Errorf("all but grants goes on: %v", err)
	}

	showsAgain(t, db, opts, shown)
	_, err = own.Acquire(t.Context(), own.params("k"))
	closedFor(t, "once others have passed it", err, "this process knows", plan)

	operator := opts
	operator.Config = db.Config(t, "t_operator")
	fastForward(t, operator, own.Shown()-1)
	_, err = own.Acquire(t.Context(), own.params("k"))
	closedFor(t, "a fast-forward too short", err, "this process knows", plan)
	fastForward(t, operator, 10_000)
	again, err := own.CreateSession(t.Context(), "alice", time.Hour) // the old one is void
	if err != nil {
		t.Fatal(err)
	}
	own.session = again.ID
	if grant, err := own.Acquire(t.Context(), own.params("k")); err != nil || grant.Token <= 10_000 {
		t.Errorf("after a fast-forward: %+v, %v", grant, err)
	}
	open(t, marked(opts, dir))
}

// showsAgain is the control: a client without any sign is shown what another was.
func showsAgain(t *testing.T, db pgtest.DB, opts postgres.Options, shown map[lockstore.Token]bool) {
	t.Helper()
	c := newClient(t, opts)
	tokens := c.show(t, 20)
	// A grant draws two numbers: the other half of them too.
	if _, err := db.Conn(t, "super").Exec(t.Context(), `SELECT nextval('fencing_token_seq')`); err != nil {
		t.Fatal(err)
	}
	maps.Copy(tokens, c.show(t, 20))
	for token := range tokens {
		if shown[token] {
			return
		}
	}
	t.Errorf("the control was shown %v, and none of %v again: nothing was set back", slices.Sorted(maps.Keys(tokens)), slices.Sorted(maps.Keys(shown)))
}

func lastToken(t *testing.T, db pgtest.DB) (last lockstore.Token) {
	t.Helper()
	if err := db.Conn(t, "super").QueryRow(t.Context(), `SELECT last_value FROM fencing_token_seq`).Scan(&last); err != nil {
		t.Fatal(err)
	}
	return last
}

// What a store that lived through it had not told the mark yet is waited for.
//
// Clauses: K-7.6
// Mutation: return from compare whatever is left of settling.
func TestSurvivorsAreWaitedFor(t *testing.T) {
	t.Parallel()
	single, db := crashable(t)
	dir := t.TempDir()
	opts := marked(crashableOptions(t, db), dir)
	newClient(t, opts).show(t, 1)
	back := saved(t, single)
	survivor := newClient(t, opts)
	survivor.show(t, 1) // its block of the ceiling covers what follows
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	// It cannot speak for a while.
	lock, err := filelock.Wait(t.Context(), files[0]+".lock", func() {})
	if err != nil {
		t.Fatal(err)
	}
	survivor.show(t, 1) // one, for it is soon closed for what it cannot tell
	back()
	opened := make(chan error, 1)
	go func() {
		late := postgres.Settling(opts, time.Hour)
		late.Config = late.Config.Copy()
		late.Config.RuntimeParams["application_name"] = "late"
		store, err := postgres.Open(t.Context(), late)
		if err == nil {
			store.Close()
		}
		opened <- err
	}()
	super := db.Conn(t, "super")
	pgtest.Eventually(t, "it has looked once", func(ctx context.Context) (looked bool, err error) {
		err = super.QueryRow(ctx, `SELECT count(*) > 0 FROM pg_stat_activity WHERE application_name = 'late' AND state = 'idle' AND query LIKE '%pg_postmaster_start_time%'`).Scan(&looked)
		return looked || len(opened) > 0, err
	})
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	closedFor(t, "opened beside the survivor", <-opened, "the outside mark", plan)
}

// promoted makes an asynchronous standby of the server by a plain copy, and returns
// what cuts its replication off, and what promotes it.
func promoted(t *testing.T, single *pgtest.Single, db pgtest.DB) (cutOff, promote func() pgtest.DB) {
	t.Helper()
	account, err := cluster.ResolveAccount("")
	if err != nil {
		t.Fatal(err)
	}
	standby := cluster.Cluster{Bin: os.Getenv(fmt.Sprintf("DLOCKCTL_TEST_PG%d", single.Major)), Dir: single.Dir + "-standby", Account: account}
	single.Stop(t)
	copyFolder(t, single.Dir, standby.Dir)
	single.Start(t)
	if err := os.WriteFile(filepath.Join(standby.Data(), "standby.signal"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	var child *cluster.Child
	for {
		port, err := cluster.FreePort(t.Context())
		if err == nil {
			err = standby.Configure(cluster.Config{
				Port: port,
				Settings: map[string]string{
					"max_connections": "200", "wal_level": "logical", "max_prepared_transactions": "10", "wal_receiver_status_interval": "1",
					"primary_conninfo": fmt.Sprintf("host=%s port=%d user=postgres", filepath.Join(single.Dir, "run"), single.Port),
				},
				HBA: []string{"local all all trust", "host all all 127.0.0.1/32 scram-sha-256"},
			})
		}
		if err == nil {
			child, err = standby.StartChild(t.Context(), port)
		}
		if err == nil {
			break
		}
		if !errors.Is(err, cluster.ErrPortTaken) {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if err := child.Stop(cluster.Immediate); err != nil {
			t.Error(err)
		}
	})
	there := db
	there.Server.Port, there.Server.Dir = child.Port, standby.Dir
	super := func(ctx context.Context, sql string, args ...any) (yes bool, err error) {
		conn, err := pgx.ConnectConfig(ctx, there.Config(t, "super"))
		if err != nil {
			return false, err
		}
		defer conn.Close(context.WithoutCancel(ctx))
		err = conn.QueryRow(ctx, sql, args...).Scan(&yes)
		return yes, err
	}
	cutOff = func() pgtest.DB {
		var sent string
		if err := db.Conn(t, "super").QueryRow(t.Context(), `SELECT pg_current_wal_flush_lsn()::text`).Scan(&sent); err != nil {
			t.Fatal(err)
		}
		pgtest.Eventually(t, "the standby has replayed", func(ctx context.Context) (bool, error) {
			return super(ctx, `SELECT pg_last_wal_replay_lsn() >= $1::text::pg_lsn`, sent)
		})
		conn := there.Conn(t, "super")
		for _, sql := range []string{`ALTER SYSTEM SET primary_conninfo = ''`, `SELECT pg_reload_conf()`} {
			if _, err := conn.Exec(t.Context(), sql); err != nil {
				t.Fatal(err)
			}
		}
		pgtest.Eventually(t, "its walreceiver is gone", func(ctx context.Context) (bool, error) {
			return super(ctx, `SELECT count(*) = 0 FROM pg_stat_wal_receiver`)
		})
		return there
	}
	promote = func() pgtest.DB {
		pgtest.Eventually(t, "the standby is promoted", func(ctx context.Context) (bool, error) {
			return super(ctx, `SELECT CASE WHEN pg_is_in_recovery() THEN pg_promote() ELSE true END`)
		})
		return there
	}
	return cutOff, promote
}

// A standby that lost what its primary acknowledged last is refused before it is
// promoted, as a standby, and from the first grant on after it: by the gate, for
// every writer. The other signs know it too, each by itself. With none a client is
// shown a token that another was shown: the control.
//
// Clauses: K-7.6, K-7.1, K-6.3, K-1.3
// Mutation: drop the timeline from lock_gate_check; the test's second half, where
// the gate is told that it was opened there, is the control.
func TestStandbyPromoted(t *testing.T) {
	t.Parallel()
	single, db := crashable(t)
	opts := crashableOptions(t, db)
	cutOff, promote := promoted(t, single, db)
	newClient(t, opts).show(t, 5)
	there := cutOff()
	standby := opts
	standby.Config = there.Config(t, "t_lockapp")
	if _, err := postgres.Open(t.Context(), standby); !errors.Is(err, lockstore.ErrNotPrimary) {
		t.Errorf("a standby: %v", err)
	}
	dir := t.TempDir()
	// What it writes ahead hides up to 32 numbers, not more.
	last := newClient(t, marked(opts, dir))
	shown := last.show(t, 40)
	last.Close()
	promote()

	_, err := postgres.Open(t.Context(), standby)
	closedFor(t, "promoted", err, "promoted", plan)
	plain := there.Conn(t, "t_lockapp")
	_, err = plain.Exec(t.Context(), postgres.Queries()["acquire"], "k", "alice", uuid.NewString(), 60.0)
	if err == nil || !strings.Contains(err.Error(), "promoted") {
		t.Errorf("another program's grant: %v", err)
	}

	// Told that it was opened there, the gate lets pass.
	if _, err := there.Conn(t, "super").Exec(t.Context(), `UPDATE lock_gate SET timeline_id = timeline_id + 1`); err != nil {
		t.Fatal(err)
	}
	_, err = postgres.Open(t.Context(), marked(standby, dir))
	closedFor(t, "outside mark", err, "the outside mark", plan)
	paid := standby
	paid.PayHighest = func(context.Context) (lockstore.Token, error) { return last.Shown(), nil }
	_, err = postgres.Open(t.Context(), paid)
	closedFor(t, "paydb", err, "paydb holds", plan)
	showsAgain(t, there, standby, shown)
}

// A dump restored on another instance is refused by the gate; on the same one, where
// identifier and timeline are what they were, by the mark. Without it a client is
// shown a token again: the control.
//
// Clauses: K-7.6, K-1.3
// Mutation: drop the system identifier from lock_gate_check, or the comparison
// with the mark.
func TestDumpRestored(t *testing.T) {
	t.Parallel()
	b := setup(t, 15) // pg_dump is at hand for 15
	opts := options(t, b.dbs)
	opts.AllowSameInstance = true
	newClient(t, opts).show(t, 5)
	dump := clientProgram(t, "pg_dump", "", "--no-sync", "-d", b.dbs.Lock.DSN("super"))
	dir := t.TempDir()
	last := newClient(t, marked(opts, dir))
	shown := last.show(t, 5)
	last.Close()
	for name, server := range map[string]pgtest.Server{"another instance": b.dbs.Pay.Server, "the same instance": b.dbs.Lock.Server} {
		db := server.EmptyDB(t)
		clientProgram(t, "psql", dump, "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", db.DSN("super"))
		opts.Config = db.Config(t, "t_lockapp")
		if name == "another instance" {
			_, err := postgres.Open(t.Context(), opts)
			closedFor(t, name, err, "was restored", plan)
			continue
		}
		_, err := postgres.Open(t.Context(), marked(opts, dir))
		closedFor(t, name, err, "the outside mark", plan)
		showsAgain(t, db, opts, shown)
	}
}

func clientProgram(t *testing.T, name, stdin string, args ...string) string {
	t.Helper()
	program := filepath.Join(os.Getenv("DLOCKCTL_TEST_PG15"), name)
	if _, err := os.Stat(program); err != nil { // the npm package has no client programs
		if program, err = exec.LookPath(name); err != nil {
			t.Fatalf("%v; install the client programs of PostgreSQL 15 or newer, Debian's package postgresql-client", err)
		}
	}
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Stdin = strings.NewReader(stdin)
	var failed strings.Builder
	cmd.Stderr = &failed
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v: %s", name, err, failed.String())
	}
	return string(out)
}
