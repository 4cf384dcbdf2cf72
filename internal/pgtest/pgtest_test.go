package pgtest_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sync/errgroup"

	"github.com/dlockctl/dlockctl/internal/instance"
	"github.com/dlockctl/dlockctl/internal/pgtest"
)

// victimVariable makes TestServersAreTwoInstances, in a process of its own, wait to be killed.
const victimVariable = "PGTEST_VICTIM"

func TestMain(m *testing.M) { pgtest.Main(m) }

// each runs a test on every tested version.
func each(t *testing.T, test func(t *testing.T, major int)) {
	t.Helper()
	for _, major := range pgtest.Majors() {
		t.Run(fmt.Sprint(major), func(t *testing.T) {
			t.Parallel()
			test(t, major)
		})
	}
}

// Clauses: K-6.1
// Mutation: start the pay server from a copy of the lock server's data folder.
func TestServersAreTwoInstances(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, major int) {
		pair := pgtest.Servers(t, major)
		lock, err := instance.Read(t.Context(), pair.Lock.EmptyDB(t).Conn(t, "t_lockapp"))
		if err != nil {
			t.Fatal(err)
		}
		pay, err := instance.Read(t.Context(), pair.Pay.EmptyDB(t).Conn(t, "t_rail"))
		if err != nil {
			t.Fatal(err)
		}
		if lock.SystemIdentifier == pay.SystemIdentifier {
			t.Errorf("both servers have the system identifier %d", lock.SystemIdentifier)
		}
		if lock.Version/10000 != major || pay.Version/10000 != major {
			t.Errorf("servers say %s and %s, want major %d", lock.VersionText, pay.VersionText, major)
		}
		if os.Getenv(victimVariable) != "" {
			fmt.Printf("victim %s %d\n", pair.Lock.Dir, pair.Lock.Port)
			<-t.Context().Done()
		}
	})
}

// Each login is what its name says.
//
// Mutation: make the logins without IN ROLE.
func TestLogins(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, major int) {
		db := pgtest.Servers(t, major).Lock.EmptyDB(t)
		got := map[string]string{}
		for _, user := range []string{"t_owner", "t_lockapp", "t_operator", "t_auditor", "t_resource", "t_rail"} {
			var groups string
			err := db.Conn(t, user).QueryRow(t.Context(), `
				SELECT string_agg(r, ' ' ORDER BY r) FROM unnest($1::text[]) r WHERE pg_has_role(r, 'MEMBER')`, instance.Roles()).Scan(&groups)
			if err != nil {
				t.Fatal(err)
			}
			got[user] = groups
		}
		want := map[string]string{
			"t_owner": "dlock_owner", "t_lockapp": "lockapp", "t_operator": "dlock_operator dlock_owner",
			"t_auditor": "dlock_auditor", "t_resource": "payapp payapp_resource", "t_rail": "payapp payapp_rail",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("group roles of the logins (-want +got):\n%s", diff)
		}
		if _, err := db.Conn(t, "t_owner").Exec(t.Context(), "CREATE TABLE public.allowed ()"); err != nil {
			t.Errorf("t_owner may not create: %v", err)
		}
		_, err := db.Conn(t, "t_lockapp").Exec(t.Context(), "CREATE TABLE public.refused ()")
		if code := sqlState(err); code != "42501" {
			t.Errorf("t_lockapp creates a table: %v", err)
		}
		if super := db.Conn(t, "super").PgConn().ParameterStatus("is_superuser"); super != "on" {
			t.Errorf("super is_superuser = %q", super)
		}
	})
}

// Other users of the machine do not get in.
//
// Mutation: trust instead of scram-sha-256 in configure.
func TestPasswordIsNeeded(t *testing.T) {
	t.Parallel()
	db := pgtest.Servers(t, 16).Lock.EmptyDB(t)
	u, err := url.Parse(db.DSN("super"))
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(u.User.Username(), "guess")
	_, err = pgx.Connect(t.Context(), u.String())
	if code := sqlState(err); code != "28P01" {
		t.Errorf("login with a guessed password: %v", err)
	}
}

func sqlState(err error) string {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		return pgErr.Code
	}
	return ""
}

// A database ends with its test, whoever is still connected.
//
// Mutation: take WITH (FORCE) out of CloneOf.
func TestDatabaseEndsWithItsTest(t *testing.T) { //nolint:tparallel // looks after its subtest has ended
	t.Parallel()
	server := pgtest.Servers(t, 15).Pay
	var name string
	t.Run("user", func(t *testing.T) {
		db := server.EmptyDB(t)
		name = db.Name
		conn, err := pgx.ConnectConfig(context.WithoutCancel(t.Context()), db.Config(t, "t_rail"))
		if err != nil {
			t.Fatal(err)
		}
		if got := conn.Config().RuntimeParams["application_name"]; got != t.Name() {
			t.Errorf("application_name %q, want %q", got, t.Name())
		}
	})
	var there bool
	err := server.EmptyDB(t).Conn(t, "super").QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", name).Scan(&there)
	if err != nil || there || name == "" {
		t.Errorf("database %q outlives its test (%v)", name, err)
	}
}

// Clauses: K-6.1
// Mutation: leave recordPeers out of makeTemplates.
func TestMigratedKnowsItsPeer(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, major int) {
		dbs := pgtest.Migrated(t, major)
		lock, pay := dbs.Lock.Conn(t, "t_auditor"), dbs.Pay.Conn(t, "t_auditor")
		for name, pair := range map[string][2]*pgx.Conn{"lockdb": {lock, pay}, "paydb": {pay, lock}} {
			recorded, ok, err := instance.Peer(t.Context(), pair[0])
			if err != nil || !ok {
				t.Fatalf("%s has no peer recorded: %v", name, err)
			}
			facts, err := instance.Read(t.Context(), pair[1])
			if err != nil {
				t.Fatal(err)
			}
			if recorded != facts.SystemIdentifier {
				t.Errorf("%s recorded %d as its peer, which is %d", name, recorded, facts.SystemIdentifier)
			}
		}
		var owner string
		if err := lock.QueryRow(t.Context(), "SELECT relowner::regrole::text FROM pg_class WHERE relname = 'lock_entry'").Scan(&owner); err != nil {
			t.Fatal(err)
		}
		if owner != instance.OwnerRole {
			t.Errorf("lock_entry belongs to %s", owner)
		}
		var accounts int
		if err := pay.QueryRow(t.Context(), "SELECT count(*) FROM account").Scan(&accounts); err != nil {
			t.Fatal(err)
		}
		if accounts == 0 {
			t.Error("the seed made no account")
		}
		// Clones share nothing.
		if _, err := dbs.Lock.Conn(t, "super").Exec(t.Context(), "CREATE TABLE only_here ()"); err != nil {
			t.Fatal(err)
		}
		var there bool
		err := pgtest.Migrated(t, major).Lock.Conn(t, "t_auditor").QueryRow(t.Context(), "SELECT to_regclass('only_here') IS NOT NULL").Scan(&there)
		if err != nil || there {
			t.Errorf("one test sees the table of another (%v)", err)
		}
	})
}

// What is committed survives a crash, what is not does not.
//
// Mutation: relaxed() instead of nil in Crashable; Fast instead of Immediate in Crash.
func TestCrashable(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, major int) {
		single := pgtest.Crashable(t, major)
		db := single.EmptyDB(t)
		conn := db.Conn(t, "t_owner")
		for _, sql := range []string{"CREATE TABLE kept (n INT)", "CREATE UNLOGGED TABLE lost (n INT)", "INSERT INTO kept VALUES (7)", "INSERT INTO lost VALUES (7)"} {
			if _, err := conn.Exec(t.Context(), sql); err != nil {
				t.Fatal(err)
			}
		}
		single.Crash(t)
		if _, err := pgx.Connect(t.Context(), db.DSN("t_owner")); err == nil {
			t.Fatal("the crashed server takes a connection")
		}
		single.Start(t)
		var kept, lost int
		var fsync string
		err := db.Conn(t, "t_owner").QueryRow(t.Context(),
			"SELECT (SELECT count(*) FROM kept), (SELECT count(*) FROM lost), current_setting('fsync')").Scan(&kept, &lost, &fsync)
		if err != nil {
			t.Fatal(err)
		}
		// An unlogged table is emptied by recovery and by nothing else: it shows that this was a crash.
		if kept != 1 || lost != 0 || fsync != "on" {
			t.Errorf("after the crash kept=%d lost=%d fsync=%s, want 1, 0, on", kept, lost, fsync)
		}
		single.Stop(t)
		single.Start(t)
	})
}

// A server whose port is taken starts when it is free again.
//
// Mutation: return what StartChild returns in Start.
func TestStartOnATakenPort(t *testing.T) {
	t.Parallel()
	single := pgtest.Crashable(t, 16)
	single.Stop(t)
	var config net.ListenConfig
	taken, err := config.Listen(t.Context(), "tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(single.Port)))
	if err != nil {
		t.Fatal(err)
	}
	var refused errgroup.Group
	refused.Go(func() error {
		defer taken.Close()
		for tick := time.NewTicker(5 * time.Millisecond); ; <-tick.C {
			log, err := os.ReadFile(filepath.Join(single.Dir, "server.log"))
			if strings.Contains(string(log), "Address already in use") || err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
		}
	})
	single.Start(t)
	if err := refused.Wait(); err != nil {
		t.Error(err)
	}
}

// kill -9 of a test process ends its servers, and the next process removes its folder.
//
// Mutation: dieWithParent does nothing; leave sweep out of newScratch.
func TestKilledProcessLeavesNothing(t *testing.T) {
	t.Parallel()
	tmp, err := os.MkdirTemp("/tmp", "pgtest-*") // of its own, where no other test process sweeps
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(tmp); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(tmp, 0o711); err != nil {
		t.Fatal(err)
	}
	victim, dir, port := startVictim(t, tmp)
	if !listening(t, port) {
		t.Fatalf("the victim's server does not listen on %s", port)
	}
	if err := victim.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = victim.Wait()
	eventually(t, "the end of the victim's server", func() bool { return !listening(t, port) })
	if _, err := os.Stat(dir); err != nil {
		t.Fatalf("the victim removed its folder itself: %v", err)
	}
	next, _, port := startVictim(t, tmp)
	if err := next.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = next.Wait()
	eventually(t, "the end of the next victim's server", func() bool { return !listening(t, port) })
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the next process left %s: %v", dir, err)
	}
}

func startVictim(t *testing.T, tmp string) (cmd *exec.Cmd, dir, port string) {
	t.Helper()
	cmd = exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestServersAreTwoInstances$/^16$")
	cmd.Env = append(os.Environ(), victimVariable+"=1", "TMPDIR="+tmp)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if words := strings.Fields(lines.Text()); len(words) == 3 && words[0] == "victim" {
			return cmd, words[1], words[2]
		}
	}
	t.Fatalf("the victim told nothing: %v", cmd.Wait())
	return nil, "", ""
}

func listening(t *testing.T, port string) bool {
	t.Helper()
	var dialer net.Dialer
	conn, err := dialer.DialContext(t.Context(), "tcp4", net.JoinHostPort("127.0.0.1", port))
	if err == nil {
		_ = conn.Close()
	}
	return err == nil
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !done(); {
		if time.Now().After(deadline) {
			t.Fatalf("waited a minute for %s", what)
		}
		<-time.After(10 * time.Millisecond)
	}
}
