package devenv_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/dlockctl/dlockctl/internal/devenv"
)

// The whole life, on every tested version: K-6.1 (two physical instances), K-2.11 (the login's limit on idle
// transactions).
//
// Clauses: K-2.11, K-6.1
// Mutation: let both instances be made by one initdb; drop ALTER ROLE … SET in provision.
func TestLifeOfTheEmbeddedDefault(t *testing.T) {
	t.Parallel()
	for _, major := range []int{16, 15} {
		t.Run(fmt.Sprint(major), func(t *testing.T) {
			t.Parallel()
			env, told := open(t, devenv.Options{StateDir: folder(t), PGBin: bin(t, major)})
			first := up(t, env)
			lock, pay := first.Instances[0], first.Instances[1]
			checkSeparate(t, lock, pay)
			for _, i := range first.Instances {
				checkFiles(t, i)
			}
			checkServer(t, must(env.LockDSN()), "lockdb", major)
			checkServer(t, must(env.PayDSN()), "paydb", major)
			checkDoors(t, must(env.LockDSN()), lock)

			execute(t, must(env.LockDSN()), "SET ROLE dlock_owner", "CREATE TABLE kept (n INT)", "INSERT INTO kept VALUES (7)")
			if again := up(t, env); !cmp.Equal(first, again) {
				t.Errorf("a second up changed something (-first +second):\n%s", cmp.Diff(first, again))
			}
			if err := env.Down(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, i := range must(env.Status(t.Context())).Instances {
				if i.State != devenv.Stopped || i.PID != 0 {
					t.Errorf("after down %s is %s with pid %d", i.Name, i.State, i.PID)
				}
			}
			up(t, env)
			if got := query[int](t, must(env.LockDSN()), "SELECT n FROM kept"); got != 7 {
				t.Errorf("after down and up the table holds %d, want 7", got)
			}
			if err := env.Destroy(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Lstat(env.Dir()); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("after destroy %s is still there: %v", env.Dir(), err)
			}
			for _, i := range must(env.Status(t.Context())).Instances {
				if i.State != devenv.Absent {
					t.Errorf("after destroy %s is %s", i.Name, i.State)
				}
			}
			if strings.Contains(told.text.String(), "postgres://") {
				t.Error("progress shows a DSN")
			}
		})
	}
}

func checkSeparate(t *testing.T, lock, pay devenv.InstanceStatus) {
	t.Helper()
	if lock.SystemIdentifier == pay.SystemIdentifier || lock.SystemIdentifier == 0 {
		t.Errorf("system identifiers %d and %d", lock.SystemIdentifier, pay.SystemIdentifier)
	}
	if lock.Port == pay.Port || lock.DataDir == pay.DataDir || lock.SocketDir == pay.SocketDir || lock.PID == pay.PID {
		t.Errorf("the instances share something: %+v and %+v", lock, pay)
	}
}

func checkFiles(t *testing.T, i devenv.InstanceStatus) {
	t.Helper()
	if mode := stat(t, i.DSNFile).Mode().Perm(); mode != 0o600 {
		t.Errorf("%s has mode %04o", i.DSNFile, mode)
	}
	for _, dir := range []string{i.DataDir, i.SocketDir} {
		info := stat(t, dir)
		if info.Mode().Perm() != 0o700 {
			t.Errorf("%s has mode %04o", dir, info.Mode().Perm())
		}
		if owner := info.Sys().(*syscall.Stat_t).Uid; owner != serverUser(t) || owner == 0 {
			t.Errorf("%s belongs to %d, want the unprivileged user %d", dir, owner, serverUser(t))
		}
	}
}

func checkServer(t *testing.T, dsn, name string, major int) {
	t.Helper()
	got := map[string]string{}
	conn := connect(t, dsn)
	want := map[string]string{
		"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on", "data_checksums": "on",
		"server_encoding": "UTF8", "idle_in_transaction_session_timeout": "1min", "listen_addresses": "127.0.0.1",
		"password_encryption": "scram-sha-256",
	}
	for setting := range want {
		var value string
		if err := conn.QueryRow(t.Context(), "SELECT current_setting($1)", setting).Scan(&value); err != nil {
			t.Fatal(err)
		}
		got[setting] = value
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("settings of %s (-want +got):\n%s", name, diff)
	}
	who := query[string](t, dsn, `SELECT format('%s owned by %s, login %s super=%s createrole=%s',
		current_database(), pg_get_userbyid(datdba), rolname, rolsuper, rolcreaterole)
		FROM pg_database, pg_roles WHERE datname = current_database() AND rolname = current_user`)
	if want := name + " owned by dlock_owner, login dlockctl super=f createrole=f"; who != want {
		t.Errorf("got %q, want %q", who, want)
	}
	groups := query[string](t, dsn, `SELECT string_agg(r, ' ' ORDER BY r) FROM unnest(ARRAY['dlock_owner', 'lockapp', 'payapp',
		'payapp_resource', 'payapp_rail', 'dlock_operator', 'dlock_auditor']) r WHERE pg_has_role(r, 'MEMBER')`)
	if want := "dlock_auditor dlock_operator dlock_owner lockapp payapp payapp_rail payapp_resource"; groups != want {
		t.Errorf("the login is a member of %q, want %q", groups, want)
	}
	if !query[bool](t, dsn, "SELECT has_schema_privilege('dlock_owner', 'public', 'CREATE')") {
		t.Error("dlock_owner may not create in schema public")
	}
	if got := query[int](t, dsn, "SELECT current_setting('server_version_num')::int / 10000"); got != major {
		t.Errorf("PostgreSQL %d runs, want %d", got, major)
	}
}

// checkDoors tries to come in where nobody may.
func checkDoors(t *testing.T, dsn string, i devenv.InstanceStatus) {
	t.Helper()
	for name, change := range map[string]func(u *url.URL){
		"a wrong password":           func(u *url.URL) { u.User = url.UserPassword("dlockctl", "wrong") },
		"the superuser over TCP":     func(u *url.URL) { u.User = url.UserPassword("dlock_super", "") },
		"the login without password": func(u *url.URL) { u.User = url.User("dlockctl") },
	} {
		u := must(url.Parse(dsn))
		change(u)
		_, err := pgx.Connect(t.Context(), u.String())
		var pgErr *pgconn.PgError
		if !errors.As(err, &pgErr) || pgErr.Code[:2] != "28" {
			t.Errorf("%s: error %v, want one of SQLSTATE class 28", name, err)
		}
	}
	password, _ := must(url.Parse(dsn)).User.Password()
	if len(password) < 20 {
		t.Errorf("the password has %d characters", len(password))
	}
	if log := must(os.ReadFile(i.LogFile)); strings.Contains(string(log), password) {
		t.Error("the server's log shows the password")
	}
}

// Two commands at once make one pair of servers.
//
// Mutation: take the lock out of Up.
func TestConcurrentUp(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	var wg sync.WaitGroup
	results := make([]devenv.Status, 3)
	for n := range results {
		env, _ := open(t, devenv.Options{StateDir: dir, PGBin: bin(t, 16)})
		wg.Go(func() {
			status, err := env.Up(t.Context())
			if err != nil {
				t.Error(err)
			}
			results[n] = status
		})
	}
	wg.Wait()
	for _, other := range results[1:] {
		if diff := cmp.Diff(results[0], other); diff != "" {
			t.Errorf("two ups saw different servers:\n%s", diff)
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func stat(t *testing.T, path string) os.FileInfo {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func connect(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}

func query[T any](t *testing.T, dsn, sql string) (value T) {
	t.Helper()
	if err := connect(t, dsn).QueryRow(t.Context(), sql).Scan(&value); err != nil {
		t.Fatal(err)
	}
	return value
}

func execute(t *testing.T, dsn string, statements ...string) {
	t.Helper()
	conn := connect(t, dsn)
	for _, sql := range statements {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
}
