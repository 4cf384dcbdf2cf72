//go:build pooler

// Package pooler_test proves that the lock store works behind PgBouncer in
// transaction mode, and that migrations refuse to (K-12.3). It needs pgbouncer
// on the PATH; `make pooler` installs it where that is Debian.
package pooler_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/dlockctl/dlockctl/internal/devenv/cluster"
	"github.com/dlockctl/dlockctl/internal/flyway"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/migrations"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// throughPooler starts PgBouncer in front of lockdb, with fewer server
// connections than clients, so that every transaction may land on another one.
func throughPooler(t *testing.T, db pgtest.DB, login string) *pgx.ConnConfig {
	t.Helper()
	direct, err := url.Parse(db.DSN(login))
	if err != nil {
		t.Fatal(err)
	}
	password, _ := direct.User.Password()
	port, err := cluster.FreePort(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "dlockctl-pooler-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // a temporary folder
	ini := fmt.Sprintf(`[databases]
%[1]s = host=127.0.0.1 port=%[2]s dbname=%[1]s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %[3]d
unix_socket_dir =
auth_type = plain
auth_file = %[4]s/users
pool_mode = transaction
default_pool_size = 2
max_client_conn = 50
logfile = %[4]s/log
pidfile = %[4]s/pid
`, db.Name, direct.Port(), port, dir)
	write(t, filepath.Join(dir, "pgbouncer.ini"), ini)
	write(t, filepath.Join(dir, "users"), fmt.Sprintf("%q %q\n", login, password))
	start(t, dir)
	config := db.Config(t, login)
	config.Host, config.Port, config.Fallbacks = "127.0.0.1", uint16(port), nil
	return config
}

// start runs PgBouncer until the test ends, as another user when root: it
// refuses to be root.
func start(t *testing.T, dir string) {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "pgbouncer", filepath.Join(dir, "pgbouncer.ini"))
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if os.Geteuid() == 0 {
		account, err := user.Lookup("postgres")
		if err != nil {
			t.Fatal(err)
		}
		uid, uidErr := strconv.ParseUint(account.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(account.Gid, 10, 32)
		if err := errors.Join(uidErr, gidErr, os.Chown(dir, int(uid), int(gid)), os.Chown(filepath.Join(dir, "users"), int(uid), int(gid))); err != nil {
			t.Fatal(err)
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start pgbouncer: %v; run: make pooler", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it has no state worth saving
		_ = cmd.Wait()         // ends with the signal
		if t.Failed() {
			t.Logf("pgbouncer said:\n%s", said.String())
		}
	})
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
}

// connect waits until the pooler answers.
func connect(t *testing.T, config *pgx.ConnConfig) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := pgx.ConnectConfig(ctx, config)
		if err == nil {
			t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(ctx)) }) // the test is over
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("reach pgbouncer: %v", err)
		case <-tick.C:
		}
	}
}

// Eight clients over two server connections: the whole life of a lock, one
// statement after another, each perhaps in another session of the server.
//
// Clauses: K-12.3
// Mutation: set DefaultQueryExecMode to QueryExecModeCacheStatement, or the lock timeout for the session.
func TestStoreBehindATransactionPooler(t *testing.T) {
	t.Parallel()
	dbs := pgtest.Migrated(t, 16)
	config := throughPooler(t, dbs.Lock, "t_lockapp")
	connect(t, config)
	store, err := postgres.Open(t.Context(), postgres.Options{Config: config, Purpose: postgres.Granting, MaxConns: 8})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	var mu sync.Mutex
	var tokens []lockstore.Token
	group, ctx := errgroup.WithContext(t.Context())
	for i := range 8 {
		group.Go(func() error {
			owner := fmt.Sprint("client-", i)
			session, err := store.CreateSession(ctx, owner, time.Minute)
			if err != nil {
				return err
			}
			for range 20 {
				grant, err := lockstore.Wait(ctx, store, lockstore.WaitParams{
					AcquireParams: lockstore.AcquireParams{Key: "k", Owner: owner, Session: session.ID, TTL: time.Minute}, Max: time.Minute,
				})
				if err != nil {
					return err
				}
				mu.Lock()
				tokens = append(tokens, grant.Token)
				mu.Unlock()
				if _, err := store.Renew(ctx, "k", grant.Token, time.Minute); err != nil {
					return err
				}
				if released, err := store.Release(ctx, "k", grant.Token); err != nil || released.Stale {
					return fmt.Errorf("release: %+v, %w", released, err)
				}
			}
			_, err = store.EndSession(ctx, session.ID)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	for i := 1; i < len(tokens); i++ {
		if tokens[i] <= tokens[i-1] {
			t.Fatalf("token %s was held after %s", tokens[i], tokens[i-1])
		}
	}
	if len(tokens) != 160 {
		t.Errorf("%d grants, want 160", len(tokens))
	}
}

// Migrations hold a lock over several transactions, and refuse a pooler that
// would lend it to somebody else.
//
// Clauses: K-12.3
// Mutation: drop the pooler check of flyway.
func TestMigrateRefusesATransactionPooler(t *testing.T) {
	t.Parallel()
	db := pgtest.Servers(t, 16).Lock.EmptyDB(t)
	config := throughPooler(t, db, "t_owner")
	connect(t, config)
	catalogue, err := flyway.Load(flyway.Location{FS: migrations.FS, Dir: "lockdb"})
	if err != nil {
		t.Fatal(err)
	}
	migrator, err := flyway.Open(t.Context(), config, catalogue, flyway.Options{Owner: "dlock_owner"})
	if err == nil {
		_, err = migrator.Up(t.Context())
		_ = migrator.Close(t.Context()) // the test is over
	}
	if _, ok := errors.AsType[*flyway.PoolerError](err); !ok {
		t.Errorf("migrate behind a pooler: %v, want it refused", err)
	}
}
