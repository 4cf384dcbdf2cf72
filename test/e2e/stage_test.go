package e2e_test

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/rogpeppe/go-internal/testscript"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/dlockctl/dlockctl/internal/devenv"
	"github.com/dlockctl/dlockctl/internal/pgtest"
)

// stage is what one script plays on.
type stage struct {
	t    testing.TB
	home string
	dbs  pgtest.Databases
	// super is the superuser's connection by database, opened when a script
	// first asks for it.
	super map[string]*pgx.Conn
	// password is what no output may show, beside those of the instances that
	// the program makes in folder.
	password, folder string
	// etcd is nil but in the scripts on etcd.
	etcd *clientv3.Client
	// rail is nil until a script asks for one.
	rail *paymentRail
	// exit is the code of the last program that ran.
	exit int
}

type stageKey struct{}

// login is what an operator has on a laptop: no superuser, and by SET ROLE the
// owner of the schemas.
const login = "t_operator"

func newStage(t testing.TB, env *testscript.Env) *stage {
	t.Helper()
	s := &stage{t: t, home: env.WorkDir, super: map[string]*pgx.Conn{}}
	s.use(pgtest.Migrated(t, postgresVersion))
	return s
}

// use moves the stage to other databases.
func (s *stage) use(dbs pgtest.Databases) {
	s.dbs = dbs
	s.super = map[string]*pgx.Conn{}
	s.password = dbs.Lock.Config(s.t, login).Password
}

// environment is all that a script starts with beside testscript's own, which
// is no more than PATH, WORK and the folder for temporary files.
func (s *stage) environment(bin string) map[string]string {
	return map[string]string{
		"PATH":            bin + string(os.PathListSeparator) + os.Getenv("PATH"),
		"HOME":            s.home,
		"XDG_CONFIG_HOME": filepath.Join(s.home, "config"),
		"XDG_STATE_HOME":  filepath.Join(s.home, "state"),
		// A race-enabled program would sleep for a second before it exits.
		"GORACE":            "atexit_sleep_ms=0",
		"DLOCKCTL_LOCK_DSN": s.dbs.Lock.DSN(login),
		"DLOCKCTL_PAY_DSN":  s.dbs.Pay.DSN(login),
		"DLOCKCTL_OPERATOR": "erin@ops",
		// The databases are seeded (K-9.4).
		"DLOCKCTL_SEED": "true",
	}
}

// conn is the superuser's connection to "lock" or "pay".
func (s *stage) conn(ts *testscript.TestScript, name string) *pgx.Conn {
	if strings.Contains(name, "/") {
		return embedded(s.t, ts, name)
	}
	db, known := map[string]pgtest.DB{"lock": s.dbs.Lock, "pay": s.dbs.Pay}[name]
	if !known {
		ts.Fatalf("there is no database %q; lock or pay, or the DSN file of an embedded one", name)
	}
	if s.super[name] == nil {
		s.super[name] = db.Conn(s.t, "super")
	}
	return s.super[name]
}

// embedded connects to a database of dev up by its DSN file.
func embedded(t testing.TB, ts *testscript.TestScript, dsnFile string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), strings.TrimSpace(ts.ReadFile(dsnFile)))
	ts.Check(err)
	ts.Defer(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}

// stateFolder makes a folder for embedded instances. As root the servers run
// as another user, who must be able to pass through, which the test's own
// folders do not allow. Whatever is left running in it is stopped.
func stateFolder(t testing.TB) string {
	t.Helper()
	folder, err := os.MkdirTemp("", "dlockctl-e2e-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := destroyAll(context.WithoutCancel(t.Context()), folder); err != nil {
			t.Errorf("remove the embedded instances in %s: %v", folder, err)
		}
	})
	if err := os.Chmod(folder, 0o711); err != nil {
		t.Fatal(err)
	}
	return folder
}

// destroyAll stops and removes the instances in a folder, and those that demo and
// drill made below it.
func destroyAll(ctx context.Context, folder string) error {
	made, err := filepath.Glob(filepath.Join(folder, "dlockctl-d*-*"))
	if err != nil {
		return err
	}
	for _, dir := range append(made, folder) {
		env, err := devenv.Open(devenv.Options{StateDir: dir, Env: func(string) string { return "" }})
		if err == nil {
			err = env.Destroy(ctx)
		}
		if err != nil {
			return err // the folder stays: its servers may still run
		}
	}
	return os.RemoveAll(folder)
}

// secrets are the passwords of all databases that the script can reach.
func (s *stage) secrets() ([]string, error) {
	found := []string{s.password}
	for _, pattern := range []string{"dev/*/dsn", "*/dev/*/dsn"} {
		files, err := filepath.Glob(filepath.Join(s.folder, pattern))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			dsn, err := url.Parse(strings.TrimSpace(string(text)))
			if err != nil {
				return nil, err
			}
			password, _ := dsn.User.Password()
			found = append(found, password)
		}
	}
	return found, nil
}

// testBinaries is the PostgreSQL that the embedded instances run.
func testBinaries() string { return os.Getenv("DLOCKCTL_TEST_PG16") }
