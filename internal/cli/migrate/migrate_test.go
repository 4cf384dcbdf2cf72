package migrate_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dlockctl/dlockctl/internal/cli"
	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/instance"
	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/internal/ui"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// result is what one run left.
type result struct {
	exit     app.Exit
	out, err string
}

// run runs the program against these databases, without a terminal; an empty
// DSN is not configured.
func run(t *testing.T, lock, pay string, args ...string) result {
	t.Helper()
	env := map[string]string{"DLOCKCTL_STATE_DIR": filepath.Join(t.TempDir(), "none")}
	for name, dsn := range map[string]string{"DLOCKCTL_LOCK_DSN": lock, "DLOCKCTL_PAY_DSN": pay} {
		if dsn != "" {
			env[name] = dsn
		}
	}
	streams, out, errOut := ui.Test("", env)
	a := app.New(streams, args)
	return result{cli.Run(t.Context(), a, args), out.String(), errOut.String()}
}

func (r result) check(t *testing.T, exit app.Exit, out, errOut string) {
	t.Helper()
	if r.exit != exit || !strings.Contains(r.out, out) || !strings.Contains(r.err, errOut) {
		t.Fatalf("exit %d, want %d; stdout %q, want %q; stderr %q, want %q", r.exit, exit, r.out, out, r.err, errOut)
	}
}

// empty returns two empty databases on two instances.
func empty(t *testing.T, major int) (lock, pay pgtest.DB) {
	t.Helper()
	pair := pgtest.Servers(t, major)
	return pair.Lock.EmptyDB(t), pair.Pay.EmptyDB(t)
}

// From nothing to both schemas, each knowing the other's instance.
//
// Clauses: K-6.1
// Mutation: leave recordPeers out of Up.
func TestUp(t *testing.T) {
	t.Parallel()
	for _, major := range pgtest.Majors() {
		lock, pay := empty(t, major)
		lockDSN, payDSN := lock.DSN("t_owner"), pay.DSN("t_owner")
		run(t, lockDSN, payDSN, "migrate", "status", "--exit-code").check(t, app.Findings, "Pending", "dlockctl migrate validate")
		run(t, lockDSN, payDSN, "migrate", "validate", "-o", "json").check(t, app.Findings, `"valid": false`, `"code": "findings"`)
		r := run(t, lockDSN, payDSN, "migrate", "up", "-o", "json")
		r.check(t, app.OK, `"target": "lockdb"`, "lockdb: applied V1__")
		var done []struct {
			Target  string `json:"target"`
			To      string `json:"to_version"`
			Applied []any  `json:"applied"`
		}
		if err := json.Unmarshal([]byte(r.out), &done); err != nil {
			t.Fatal(err)
		}
		if len(done) != 2 || done[1].Target != "paydb" || len(done[0].Applied) == 0 || len(done[1].Applied) == 0 {
			t.Errorf("up says it did %+v", done)
		}
		lockConn, payConn := lock.Conn(t, "t_owner"), pay.Conn(t, "t_owner")
		lockFacts, err := instance.Read(t.Context(), lockConn)
		if err != nil {
			t.Fatal(err)
		}
		if id, known, err := instance.Peer(t.Context(), payConn); err != nil || !known || id != lockFacts.SystemIdentifier {
			t.Errorf("paydb knows %d (%v, %v) as its peer, want %d", id, known, err, lockFacts.SystemIdentifier)
		}
		run(t, lockDSN, payDSN, "migrate", "validate").check(t, app.OK, "", "no findings")
		run(t, lockDSN, payDSN, "migrate", "status", "--exit-code", "--target", "lockdb").check(t, app.OK, "Success", "")
		run(t, lockDSN, payDSN, "migrate", "up").check(t, app.OK, "APPLIED", "")
	}
}

// Locks and money on one instance are refused before anything is run, unless
// the caller says that it is meant.
//
// Clauses: K-6.1
// Mutation: take the comparison out of separate.
func TestUpRefusesOneInstance(t *testing.T) {
	t.Parallel()
	server := pgtest.Servers(t, 16).Lock
	lock, pay := server.EmptyDB(t), server.EmptyDB(t)
	run(t, lock.DSN("t_owner"), pay.DSN("t_owner"), "migrate", "up").check(t, app.Refused, "", "same PostgreSQL instance")
	var tables int
	if err := lock.Conn(t, "t_owner").QueryRow(t.Context(), `SELECT count(*) FROM pg_tables WHERE schemaname = 'public'`).Scan(&tables); err != nil || tables != 0 {
		t.Errorf("%d tables were made (%v)", tables, err)
	}
	run(t, lock.DSN("t_owner"), pay.DSN("t_owner"), "migrate", "up", "--allow-same-instance").check(t, app.OK, "lockdb", "")
}

// With one database known there is nothing to compare, and one target to run.
func TestUpOfOneTarget(t *testing.T) {
	t.Parallel()
	lock, pay := empty(t, 16)
	run(t, lock.DSN("t_owner"), "", "migrate", "up", "--target", "lockdb").check(t, app.OK, "lockdb", "")
	run(t, lock.DSN("t_owner"), "", "migrate", "up").check(t, app.Usage, "", "set DLOCKCTL_PAY_DSN / --pay-dsn-file")
	// Both known, one migrated: the identities wait for the other.
	lock2, _ := empty(t, 16)
	run(t, lock2.DSN("t_owner"), pay.DSN("t_owner"), "migrate", "up", "--target", "lockdb").check(t, app.OK, "lockdb", "not recorded yet")
}

// Seeds are looked for exactly where they were applied.
//
// Clauses: K-9.4
// Mutation: set Seed to false in targets.
func TestSeedIsPartOfTheProfile(t *testing.T) {
	t.Parallel()
	_, pay := empty(t, 16)
	config := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(config, []byte("profiles: {seeded: {seed: true}, plain: {}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	up := func(profile string, args ...string) result {
		return run(t, "", pay.DSN("t_owner"), append(args, "--target", "paydb", "--config", config, "--profile", profile)...)
	}
	up("plain", "migrate", "up").check(t, app.OK, "paydb", "")
	if r := up("plain", "migrate", "status"); strings.Contains(r.out, "seed") {
		t.Errorf("a plain profile knows the seeds:\n%s", r.out)
	}
	up("seeded", "migrate", "up").check(t, app.OK, "paydb", "applied R__seed")
	up("seeded", "migrate", "validate").check(t, app.OK, "", "no findings")
	up("plain", "migrate", "validate").check(t, app.Findings, "missing", "")
}

// An edited history is refused with 9; repair shows what it would do, asks, and
// makes it good.
//
// Clauses: K-9.3
// Mutation: take the confirmation out of runRepair.
func TestEditedHistoryAndRepair(t *testing.T) {
	t.Parallel()
	lock, _ := empty(t, 16)
	dsn := lock.DSN("t_owner")
	migrate := func(args ...string) result {
		return run(t, dsn, "", append([]string{"migrate"}, append(args, "--target", "lockdb")...)...)
	}
	migrate("up").check(t, app.OK, "", "")
	conn := lock.Conn(t, "super")
	edit := `UPDATE flyway_schema_history SET checksum = 1 WHERE version = '1'`
	if _, err := conn.Exec(t.Context(), edit); err != nil {
		t.Fatal(err)
	}
	migrate("up", "-o", "json").check(t, app.History, "", `"code": "history"`)
	migrate("validate").check(t, app.Findings, "edited", "put the file back")
	migrate("repair", "--dry-run").check(t, app.OK, "accept the edited file of", "")
	migrate("repair").check(t, app.Refused, "", "--yes")
	var checksum int
	if err := conn.QueryRow(t.Context(), `SELECT checksum FROM flyway_schema_history WHERE version = '1'`).Scan(&checksum); err != nil || checksum != 1 {
		t.Fatalf("an unconfirmed repair changed the checksum to %d (%v)", checksum, err)
	}
	migrate("repair", "--yes").check(t, app.OK, "V1__", "")
	migrate("validate").check(t, app.OK, "", "no findings")
	migrate("repair", "--yes").check(t, app.OK, "", "nothing to repair")
}

func TestBaseline(t *testing.T) {
	t.Parallel()
	lock, _ := empty(t, 16)
	dsn := lock.DSN("t_owner")
	run(t, dsn, "", "migrate", "baseline", "2", "--target", "lockdb").check(t, app.OK, "2", "")
	run(t, dsn, "", "migrate", "baseline", "2", "--target", "lockdb").check(t, app.OK, "2", "")
	run(t, dsn, "", "migrate", "baseline", "3", "--target", "lockdb").check(t, app.History, "", "already baselined at version 2")
	run(t, dsn, "", "migrate", "status", "--target", "lockdb").check(t, app.OK, "Baseline", "")
}

func TestRoles(t *testing.T) {
	t.Parallel()
	lock, pay := empty(t, 16)
	run(t, "", "", "migrate", "roles", "--print").check(t, app.OK, instance.RolesSQL(), "")
	run(t, lock.DSN("super"), pay.DSN("super"), "migrate", "roles").check(t, app.OK, "dlock_owner", "")
}

// A login without rights, a wrong password and nobody at the address each have
// their exit code.
func TestConnectionTroubles(t *testing.T) {
	t.Parallel()
	lock, _ := empty(t, 16)
	run(t, lock.DSN("t_auditor"), "", "migrate", "up", "--target", "lockdb").check(t, app.Refused, "", "dlockctl migrate roles")
	wrong := strings.Replace(lock.DSN("t_owner"), "t_owner:", "t_owner:not-", 1)
	for _, args := range [][]string{{"migrate", "status", "--target", "lockdb"}, {"lock", "list"}} {
		run(t, wrong, "", args...).check(t, app.Unreachable, "", "password authentication failed")
		run(t, "postgres://u@127.0.0.1:1/db", "", args...).check(t, app.Unreachable, "", "connection refused")
	}
	run(t, lock.DSN("t_owner"), "", "lock", "list", "-o", "json").check(t, app.Refused, "", `"code": "schema_version"`)
}

func TestNew(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "lockdb"), 0o700); err != nil {
		t.Fatal(err)
	}
	run(t, "", "", "migrate", "new", "Add a Note", "--target", "lockdb", "--dir", dir, "-o", "name").
		check(t, app.OK, filepath.Join(dir, "lockdb", "V1__add_a_note.sql")+"\n", "")
	run(t, "", "", "migrate", "new", "!!", "--target", "lockdb", "--dir", dir).check(t, app.Usage, "", `"!!" has no letter`)
}
