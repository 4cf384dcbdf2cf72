package cli_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dlockctl/dlockctl/internal/cli"
	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/instance"
	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/internal/runner"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// runReal runs the program against real databases, with this environment alone.
func runReal(t *testing.T, env map[string]string, args ...string) result {
	t.Helper()
	streams, out, errOut := ui.Test("", env)
	return result{cli.Run(t.Context(), app.New(streams, args), args), out.String(), errOut.String()}
}

// envOf reaches both databases as a login.
func envOf(dbs pgtest.Databases, login string, more ...string) map[string]string {
	env := map[string]string{
		"DLOCKCTL_LOCK_DSN": dbs.Lock.DSN(login), "DLOCKCTL_PAY_DSN": dbs.Pay.DSN(login), "DLOCKCTL_OPERATOR": "op@ops", "DLOCKCTL_SEED": "true",
	}
	for i := 0; i < len(more); i += 2 {
		env[more[i]] = more[i+1]
	}
	return env
}

// marked marks both databases.
func marked(t *testing.T, dbs pgtest.Databases, environment string) {
	t.Helper()
	for name, db := range map[string]pgtest.DB{"lockdb": dbs.Lock, "paydb": dbs.Pay} {
		if err := instance.MarkEnvironment(t.Context(), db.Conn(t, "t_owner"), name, environment); err != nil {
			t.Fatal(err)
		}
	}
}

// count counts the rows of a table of lockdb.
func count(t *testing.T, db pgtest.DB, table string) int {
	t.Helper()
	var n int
	if err := db.Conn(t, "super").QueryRow(t.Context(), "SELECT count(*) FROM "+table).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// someID is of nothing that there is.
const someID = "40000000-0000-4000-8000-000000000004"

// No write reaches a database that is marked as another environment, by
// whatever way it was addressed; looking does. Of dev seed, which has databases of its
// own, test/e2e/testdata/dev_seed.txtar tells the same.
//
// Mutation: leave Environment out of the options of the store, of paydb, or of
// pruning, or guard out of a migrate verb.
func TestWrongEnvironment(t *testing.T) {
	t.Parallel()
	dbs := pgtest.Migrated(t, 16)
	marked(t, dbs, "prod-eu")
	ran := filepath.Join(t.TempDir(), "ran")
	config := filepath.Join(t.TempDir(), "config.yaml")
	text := "profiles:\n  prod:\n    environment: prod-eu\n  test:\n    environment: test\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	writes := [][]string{
		{"acquire", "k"},
		{"session", "create"},
		{"session", "reap"},
		{"lock", "prune", "--yes"},
		{"release", "k", "--token", "1"},
		{"revoke", "k", "--reason", "r", "--yes", "--any-token"},
		{"renew", "k", "--token", "1"},
		{"session", "heartbeat", someID},
		{"session", "end", someID, "--yes"},
		{"revoke", "--owner", "x", "--reason", "r", "--yes", "--expect-count", "1"},
		{"audit", "prune", "--older-than", "48h", "--reason", "r", "--yes"},
		{"freeze", "--reason", "r"},
		{"thaw", "--reason", "r"},
		{"restore", "fast-forward", "--reason", "r", "--yes"},
		{"restore", "paydb", "--reason", "r", "--yes"},
		{"payout", "create", "--account", someID, "--amount-minor", "1", "--currency", "EUR", "--idempotency-key", "k"},
		{"payout", "release", someID, "--token", "1"},
		{"payout", "resolve", someID, "--reason", "r", "--yes"},
		{"payout", "resolve", "--all", "--from-rail", "--rail-url", "http://127.0.0.1:1/", "--reason", "r", "--yes"},
		{"payout", "abandon", someID, "--reason", "r", "--yes"},
		{"migrate", "up"},
		{"migrate", "up", "--target", "lockdb"},
		{"migrate", "repair", "--target", "paydb", "--yes"},
		{"migrate", "baseline", "1", "--target", "paydb"},
		{"migrate", "roles"},
	}
	for name, env := range map[string]map[string]string{
		"none":                  envOf(dbs, "t_operator"),
		"another by variable":   envOf(dbs, "t_operator", "DLOCKCTL_ENVIRONMENT", "test"),
		"another by profile":    envOf(dbs, "t_operator", "DLOCKCTL_CONFIG", config, "DLOCKCTL_PROFILE", "test"),
		"right name as profile": envOf(dbs, "t_operator", "DLOCKCTL_ENVIRONMENT", "prod"),
	} {
		for _, args := range writes {
			r := runReal(t, env, append(args, "-o", "json")...)
			if r.exit != app.Refused || !strings.Contains(r.err, `"code": "wrong_environment"`) || !strings.Contains(r.err, "prod-eu") {
				t.Errorf("%s: %v: exit %d, stderr %s", name, args, r.exit, r.err)
			}
		}
		// What stands after -- is the command's, and it does not run.
		r := runReal(t, env, "run", "k", "-o", "json", "--", "touch", ran)
		if r.exit != runner.ExitNotAcquired || !strings.Contains(r.err, `"code": "wrong_environment"`) || !strings.Contains(r.err, "prod-eu") {
			t.Errorf("%s: run: exit %d, stderr %s", name, r.exit, r.err)
		}
		if _, err := os.Lstat(ran); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: the command ran: %v", name, err)
		}
		runReal(t, env, "lock", "list").check(t, app.OK, "", "no locks")
		runReal(t, env, "migrate", "repair", "--target", "paydb", "--dry-run").check(t, app.OK, "", "nothing to repair")
	}
	// By flag over variable, and by profile, it is the right one.
	runReal(t, envOf(dbs, "t_operator", "DLOCKCTL_ENVIRONMENT", "test"), "acquire", "a", "--environment", "prod-eu", "-o", "name").check(t, app.OK, "\n", "")
	runReal(t, envOf(dbs, "t_operator", "DLOCKCTL_CONFIG", config), "acquire", "b", "-p", "prod", "-o", "name").check(t, app.OK, "\n", "")
	runReal(t, envOf(dbs, "t_operator"), "payout", "release", someID, "--token", "1", "--environment", "prod-eu").check(t, app.NotFound, "", "not found")
	runReal(t, envOf(dbs, "t_operator"), "restore", "paydb", "--reason", "r", "--yes", "--environment", "prod-eu").check(t, app.OK, "\n", "")
	if got := count(t, dbs.Lock, "lock_entry"); got != 2 {
		t.Errorf("%d entries, want the two that were granted", got)
	}
	runReal(t, envOf(dbs, "t_operator"), "acquire", "k", "--environment", "Prod EU").check(t, app.Usage, "", `environment "Prod EU" is not`)
}

// up writes the mark, once, in both databases; a database that is not marked
// takes any.
//
// Mutation: leave mark out of Up.
func TestUpMarksTheEnvironment(t *testing.T) {
	t.Parallel()
	dbs := pgtest.Migrated(t, 16)
	env := envOf(dbs, "t_owner", "DLOCKCTL_ENVIRONMENT", "test")
	runReal(t, env, "session", "create", "-o", "name").check(t, app.OK, "\n", "")
	for range 2 {
		runReal(t, env, "migrate", "up").check(t, app.OK, "lockdb", "")
	}
	for _, db := range []pgtest.DB{dbs.Lock, dbs.Pay} {
		if got, err := instance.Environment(t.Context(), db.Conn(t, "t_owner")); err != nil || got != "test" {
			t.Errorf("marked %q, %v", got, err)
		}
	}
	runReal(t, envOf(dbs, "t_owner", "DLOCKCTL_ENVIRONMENT", "prod"), "migrate", "up").check(t, app.Refused, "", `lockdb belongs to environment "test", not to "prod"`)
	// Of an empty database nothing is known, and up makes it.
	servers := pgtest.Servers(t, 16)
	fresh := pgtest.Databases{Lock: servers.Lock.EmptyDB(t), Pay: servers.Pay.EmptyDB(t)}
	runReal(t, envOf(fresh, "t_owner", "DLOCKCTL_ENVIRONMENT", "stage"), "migrate", "up").check(t, app.OK, "lockdb", "applied V1__")
	runReal(t, envOf(fresh, "t_owner"), "migrate", "up", "--target", "paydb").check(t, app.Refused, "", `paydb belongs to environment "stage", and the configuration names none`)
}

// Whatever else changes a database for good wants the protected profile's name.
//
// Mutation: take Protect out of any of the verbs.
func TestProtectedChanges(t *testing.T) {
	t.Parallel()
	dbs := pgtest.Migrated(t, 16)
	config := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(config, []byte("profiles:\n  prod:\n    protected: true\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := envOf(dbs, "t_operator", "DLOCKCTL_CONFIG", config, "DLOCKCTL_PROFILE", "prod", "DLOCKCTL_CONFIRM", "prod")
	const refused = `"code": "protected"`
	for _, args := range [][]string{
		{"audit", "prune", "--older-than", "48h", "--reason", "r", "--yes"},
		{"freeze", "--reason", "r"},
		{"thaw", "--reason", "r"},
		{"restore", "fast-forward", "--reason", "r", "--yes"},
		{"restore", "paydb", "--reason", "r", "--yes", "--copied"},
		{"payout", "release", someID, "--token", "1"},
		{"payout", "resolve", someID, "--reason", "r", "--yes"},
		{"payout", "resolve", someID, "--from-rail", "--rail-url", "http://127.0.0.1:1/", "--reason", "r", "--yes"},
		{"payout", "resolve", "--all", "--from-rail", "--rail-url", "http://127.0.0.1:1/", "--reason", "r", "--yes"},
		{"payout", "abandon", someID, "--reason", "r", "--yes"},
	} {
		args = append(args, "-o", "json")
		for _, named := range []string{"", "--confirm=", "--confirm=Prod", "--confirm=yes"} {
			try := args
			if named != "" {
				try = append(args[:len(args):len(args)], named)
			}
			runReal(t, env, try...).check(t, app.Refused, "", refused)
		}
		if got := count(t, dbs.Lock, "operator_log"); got != 0 {
			t.Fatalf("%v: %d records", args, got)
		}
	}
	for _, args := range [][]string{{"freeze", "--reason", "r"}, {"thaw", "--reason", "r"}, {"restore", "fast-forward", "--reason", "r", "--yes"}} {
		runReal(t, env, append(args, "--confirm=prod")...).check(t, app.OK, "\n", " PROTECTED  profile prod")
	}
	if got := count(t, dbs.Lock, "operator_log"); got != 4 { // the fast-forward says so before and after
		t.Errorf("%d records of the three changes that were confirmed", got)
	}
}

// A protected profile's schemas change only when it is named.
//
// Mutation: take Protect out of guard.
func TestProtectedSchemas(t *testing.T) {
	t.Parallel()
	dbs := pgtest.Migrated(t, 16)
	config := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(config, []byte("profiles:\n  prod:\n    protected: true\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := envOf(dbs, "t_owner", "DLOCKCTL_CONFIG", config, "DLOCKCTL_PROFILE", "prod")
	for _, args := range [][]string{
		{"migrate", "up"}, {"migrate", "repair", "--target", "lockdb", "--yes"}, {"migrate", "baseline", "1", "--target", "lockdb"},
	} {
		runReal(t, env, args...).check(t, app.Refused, "", `profile "prod" is protected`)
	}
	runReal(t, env, "migrate", "up", "--confirm=prod").check(t, app.OK, "lockdb", " PROTECTED  profile prod")
	runReal(t, env, "migrate", "status").check(t, app.OK, "Success", "")
}
