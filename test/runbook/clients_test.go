package runbook_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/devenv/cluster"
	"github.com/dlockctl/dlockctl/internal/pgtest"
)

// The statements of the contract, as a program uses them that is not this one.
const (
	makeSession = `INSERT INTO lock_session (session_id, owner_id, expires_at)
		VALUES (gen_random_uuid(), $1, now() + interval '1 hour') RETURNING session_id`
	acquire = `INSERT INTO lock_entry (lock_key, owner_id, session_id, fencing_token, acquired_at, expires_at)
		VALUES ($1, $2, $3, nextval('fencing_token_seq'), now(), now() + make_interval(secs => $4))
		ON CONFLICT (lock_key) DO UPDATE
		   SET owner_id = EXCLUDED.owner_id, session_id = EXCLUDED.session_id, fencing_token = nextval('fencing_token_seq'),
		       acquired_at = now(), expires_at = now() + make_interval(secs => $4)
		 WHERE lock_entry.expires_at <= now()
		    OR (lock_entry.owner_id = EXCLUDED.owner_id AND lock_entry.session_id = EXCLUDED.session_id)
		RETURNING fencing_token`
	release = `DELETE FROM lock_entry WHERE lock_key = $1 AND fencing_token = $2`
)

// beside runs a client until the test ends; it hears of that by its context.
func beside(t *testing.T, client func(context.Context)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { client(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
}

// login makes one for this test alone; roles belong to the whole instance.
func login(t *testing.T, db pgtest.DB, name string) *pgx.ConnConfig {
	t.Helper()
	config := db.Config(t, "t_lockapp")
	config.User, config.Password = name, name+"-password"
	execute(t, db, fmt.Sprintf(`CREATE ROLE %s LOGIN PASSWORD '%s' IN ROLE lockapp`, name, config.Password),
		fmt.Sprintf(`ALTER ROLE %s SET idle_in_transaction_session_timeout = '15s'`, name))
	dropLater(t, db, name)
	return config
}

func dropLater(t *testing.T, db pgtest.DB, name string) {
	t.Helper()
	super := db.Conn(t, "super")
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		if _, err := super.Exec(ctx, `DROP ROLE IF EXISTS `+name); err != nil {
			t.Errorf("drop the test's login: %v", err)
		}
	})
}

// comeBackAgain is a worker that makes a session for each try and takes the account's
// lock and another whenever they are free, as long as it gets in.
func comeBackAgain(t *testing.T, s *stage) (after func()) {
	t.Helper()
	s.env = append(s.env, "ACCOUNT="+account, "ROGUE=rogue_worker")
	config := login(t, s.dbs.Lock, "rogue_worker")
	beside(t, func(ctx context.Context) {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			_ = insist(ctx, config, "account:"+account, "batch:rogue") // refused at last, which is the point
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	})
	held := s.dbs.Lock.Conn(t, "super")
	pgtest.Eventually(t, "the worker holds both", func(ctx context.Context) (both bool, err error) {
		err = held.QueryRow(ctx, `SELECT count(*) = 2 FROM lock_entry WHERE owner_id = 'worker-7'`).Scan(&both)
		return both, err
	})
	return func() {}
}

// insist tries to acquire until its connection is cut.
func insist(ctx context.Context, config *pgx.ConnConfig, keys ...string) error {
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // it is cut, or the test is over
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		for _, key := range keys {
			var session string
			if err := conn.QueryRow(ctx, makeSession, "worker-7").Scan(&session); err != nil {
				return err
			}
			if _, err := conn.Exec(ctx, acquire, key, "worker-7", session, 3600.0); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// crowd is a key that three want for a moment, over and over, one has taken for hours,
// and two wait for.
func crowd(t *testing.T, s *stage) (after func()) {
	t.Helper()
	const key = "report:daily"
	s.env = append(s.env, "KEY="+key)
	conn := s.dbs.Lock.Conn(t, "t_lockapp")
	for _, owner := range []string{"web-1", "web-2", "web-3", "web-1"} {
		if _, err := once(t.Context(), conn, key, owner); err != nil {
			t.Fatal(err)
		}
	}
	s.shows(t, "dlockctl acquire "+key+" --owner hog --ttl 20h")
	var waiting sync.WaitGroup
	got := make([]error, 2)
	for i := range got {
		waiting.Go(func() {
			_, got[i] = s.shell(t, fmt.Sprintf("TOKEN=$(dlockctl acquire %s --owner late-%d --ttl 10s --wait 2m --timeout 2m -o name) && dlockctl release %s --token $TOKEN", key, i, key))
		})
	}
	return func() {
		t.Helper()
		waiting.Wait()
		for i, err := range got {
			if err != nil {
				t.Errorf("late-%d waited in vain: %v", i, err)
			}
		}
	}
}

// once takes a key and gives it back, and returns its token.
func once(ctx context.Context, conn *pgx.Conn, key, owner string) (token int64, err error) {
	var session string
	if err := conn.QueryRow(ctx, makeSession, owner).Scan(&session); err != nil {
		return 0, fmt.Errorf("make a session: %w", err)
	}
	if err := conn.QueryRow(ctx, acquire, key, owner, session, 30.0).Scan(&token); err != nil {
		return 0, fmt.Errorf("acquire: %w", err)
	}
	if _, err := conn.Exec(ctx, release, key, token); err != nil {
		return 0, fmt.Errorf("release: %w", err)
	}
	return token, nil
}

// serveUnderOldPassword runs lock-server under one login, with an executor's key in its
// keys file; systemctl is a script that starts it again.
func serveUnderOldPassword(t *testing.T, s *stage) (after func()) {
	t.Helper()
	const old, next = "lock_server_a", "lock_server_b"
	config := login(t, s.dbs.Lock, old)
	dropLater(t, s.dbs.Lock, next)
	conf := filepath.Join(s.home, "etc")
	if err := os.Mkdir(conf, 0o700); err != nil {
		t.Fatal(err)
	}
	port, err := cluster.FreePort(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	where := fmt.Sprintf("%s:%d/%s?sslmode=disable", config.Host, config.Port, config.Database)
	for path, text := range map[string]string{
		filepath.Join(conf, "lock.dsn"): fmt.Sprintf("postgres://%s:%s@%s\n", old, config.Password, where),
		filepath.Join(conf, "dlockctl.yaml"): "profiles:\n  alone:\n    no_payments: true\n    lock: {dsn_file: " + filepath.Join(conf, "lock.dsn") +
			"}\n    serve: {listen: '" + address + "', keys_file: " + filepath.Join(conf, "callers.keys") + "}\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := writeProgram(filepath.Join(s.home, "systemctl"), []byte(systemctl)); err != nil {
		t.Fatal(err)
	}
	s.env = append(s.env, "CONF="+conf, "LOCKDB="+where, "OLD="+old, "NEW="+next, "LOCK_SERVER=http://"+address)
	t.Cleanup(func() { stop(t, filepath.Join(conf, "pid")) })
	s.shows(t, "cd $CONF && dlockctl serve key --name executor-1 --scope acquire,pay,rail --keys-file callers.keys >executor-1.key && systemctl restart dlockctl@lock-server")
	return func() {
		t.Helper()
		users := column(t, s.dbs.Lock, `SELECT DISTINCT usename FROM pg_stat_activity WHERE usename = ANY($1)`, []string{old, next})
		if !slices.Equal(users, []string{next}) {
			t.Errorf("lock-server comes as %v, want %s alone", users, next)
		}
	}
}

// systemctl starts lock-server anew, as the one of a machine does with its unit, and
// returns when it listens.
const systemctl = `#!/bin/bash
set -eu
cd "$(dirname "$0")/etc"
# One that has ended is there until its parent asks, which process 1 may never do.
runs() { kill -0 "$(cat pid)" 2>/dev/null && ! grep -qs '^State:[[:space:]]*Z' "/proc/$(cat pid)/status"; }
ended() { ! runs; }
listens() {
  grep -q 'msg=listening' log || { runs || { cat log >&2; exit 1; }; false; }
}
within_a_minute() {
  for _ in {1..1200}; do
    if "$@"; then return; fi
    sleep 0.05
  done
  echo "not within a minute: lock-server $1" >&2
  exit 1
}
if [ -f pid ]; then
  kill -TERM "$(cat pid)"
  within_a_minute ended
fi
: >log # not the last one's
env -u DLOCKCTL_LOCK_DSN -u DLOCKCTL_PAY_DSN -u DLOCKCTL_RAIL_DSN -u DLOCKCTL_SERVER_KEY_FILE \
  dlockctl serve lock-server --config dlockctl.yaml --profile alone </dev/null >>log 2>&1 &
echo $! >pid
within_a_minute listens
`

// stop ends the service whose number the file holds.
func stop(t *testing.T, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		return // it was never started
	}
	var pid int
	if _, err := fmt.Sscan(string(text), &pid); err != nil {
		t.Error(err)
		return
	}
	process, err := os.FindProcess(pid)
	if err == nil {
		err = process.Kill()
	}
	if err != nil {
		t.Errorf("stop lock-server: %v", err)
	}
}

func column(t *testing.T, db pgtest.DB, sql string, args ...any) []string {
	t.Helper()
	rows, err := db.Conn(t, "super").Query(t.Context(), sql, args...)
	if err != nil {
		t.Fatal(err)
	}
	values, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return values
}
