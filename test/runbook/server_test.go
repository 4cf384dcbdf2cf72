package runbook_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/devenv/cluster"
	"github.com/dlockctl/dlockctl/internal/instance"
)

// machine is a computer with servers of PostgreSQL on it, whose user is who acts.
type machine struct {
	*stage

	dir     string
	account cluster.Account
	servers atomic.Int64
}

// newMachine makes one with the programs in bin. What runs on it ends with the test.
func newMachine(t *testing.T, bin string) *machine {
	t.Helper()
	account, err := cluster.ResolveAccount("")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("/tmp", "dlockrb-") // short: sockets lie in it
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{dir: dir, account: account, stage: &stage{home: filepath.Join(dir, "home"), desk: filepath.Join(dir, "desk")}}
	t.Cleanup(func() { m.off(t) })
	self, err := os.Executable()
	err = errors.Join(err, os.Chmod(dir, 0o711), os.Mkdir(m.home, 0o755), os.Mkdir(m.desk, 0o755))
	if err == nil {
		err = m.take(self, filepath.Join(m.home, program))
	}
	if err := errors.Join(err, m.own(m.home), m.own(m.desk), m.own(dir)); err != nil {
		t.Fatal(err)
	}
	guard(t, m.home)
	m.env = []string{
		"HOME=" + m.home, "PATH=" + strings.Join([]string{m.home, bin, os.Getenv("PATH")}, string(os.PathListSeparator)),
		"GORACE=atexit_sleep_ms=0", "DLOCKCTL_OPERATOR=erin@ops", "LC_ALL=C", "TZ=UTC", "SERVERS=" + dir,
	}
	return m
}

// take puts the program where the servers' user can run it, which the folder of a test
// binary does not allow.
func (m *machine) take(from, to string) error {
	if os.Link(from, to) == nil {
		return nil
	}
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return writeProgram(to, text)
}

func (m *machine) own(path string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	return os.Chown(path, int(m.account.UID), int(m.account.GID))
}

// asServer lets the servers' user act, who has to be somebody when this is root.
func (s *stage) asServer(cmd *exec.Cmd) {
	info, err := os.Stat(s.desk)
	if err != nil || os.Geteuid() != 0 {
		return
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); ok {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: owner.Uid, Gid: owner.Gid}}
	}
}

// off stops every server, whoever has started it, and removes everything.
func (m *machine) off(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", `for data in "$SERVERS"/*/data; do [ ! -f "$data/postmaster.pid" ] || pg_ctl -D "$data" -s -m immediate stop; done`)
	cmd.Env, cmd.Dir = m.env, m.desk
	m.asServer(cmd)
	out, err := cmd.CombinedOutput()
	if err := errors.Join(err, os.RemoveAll(m.dir)); err != nil {
		t.Errorf("stop the servers in %s: %v\n%s", m.dir, err, out)
	}
}

// do runs a command that must succeed.
func (m *machine) do(t *testing.T, format string, args ...any) {
	t.Helper()
	m.shows(t, "set -eu\n"+fmt.Sprintf(format, args...))
}

// server is one PostgreSQL of a machine: data/, and run/ for its socket, in a folder.
type server struct {
	*machine

	dir, database string
}

const socketPort = 5432

func (m *machine) folder(database string) *server {
	return &server{machine: m, dir: filepath.Join(m.dir, fmt.Sprintf("%s%d", database, m.servers.Add(1))), database: database}
}

func (s *server) data() string { return filepath.Join(s.dir, "data") }

// dsn is how to log in. Who may enter the socket's folder needs no password.
func (s *server) dsn(login string) string {
	return fmt.Sprintf("host=%s port=%d user=%s dbname=%s sslmode=disable", filepath.Join(s.dir, "run"), socketPort, login, s.database)
}

// initdb makes a server and starts it. Its WAL is handed to a program in its folder, whose
// name says what pgBackRest wants to read in a setting.
func (m *machine) initdb(t *testing.T, database string) *server {
	t.Helper()
	s := m.folder(database)
	m.do(t, `mkdir -p %[1]s/run && initdb -D %[1]s/data -U postgres -E UTF8 --locale=C --auth=trust --no-sync >/dev/null
printf '#!/bin/sh\nexit 0\n' >%[1]s/pgbackrest-archive && chmod +x %[1]s/pgbackrest-archive
cat >>%[1]s/data/postgresql.conf <<'END'
%[2]sEND`, s.dir, fmt.Sprintf(settings, socketPort))
	s.start(t)
	return s
}

// settings are those of a server and of its copies, wherever they lie.
const settings = `listen_addresses = ''
unix_socket_directories = '../run'
port = %d
fsync = off
wal_level = logical
max_connections = 60
shared_buffers = 16MB
archive_mode = on
archive_command = '../pgbackrest-archive "%%p" "%%f"'
`

func (s *server) start(t *testing.T) {
	t.Helper()
	s.do(t, `pg_ctl -D %[1]s/data -s -l %[1]s/log start`, s.dir)
}

func (s *server) stop(t *testing.T, mode string) {
	t.Helper()
	s.do(t, `pg_ctl -D %s/data -s -m %s stop`, s.dir, mode)
}

// copied is a plain copy of the data folder of a server that does not run; it is not
// started.
func (s *server) copied(t *testing.T) *server {
	t.Helper()
	return s.copiedTo(t, s.machine)
}

// copiedTo is the same on another machine.
func (s *server) copiedTo(t *testing.T, m *machine) *server {
	t.Helper()
	c := m.folder(s.database)
	m.do(t, `mkdir -p %[2]s/run && cp -a %[1]s/data %[2]s/data && cp %[1]s/pgbackrest-archive %[2]s/pgbackrest-archive`, s.dir, c.dir)
	return c
}

// conn is a connection of a login, closed with the test.
func (s *server) query(t *testing.T, login, sql string, args ...any) (text string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.dsn(login))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if err := conn.QueryRow(t.Context(), sql, args...).Scan(&text); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return text
}

// logins are those of the test databases, each with the group role of its work.
func logins() map[string]string {
	return map[string]string{
		"t_owner": instance.OwnerRole, "t_lockapp": "lockapp", "t_operator": "dlock_operator",
		"t_auditor": "dlock_auditor", "t_resource": "payapp_resource", "t_rail": "payapp_rail",
	}
}

// works points the page's names at a lockdb and a paydb.
func (m *machine) works(lock, pay *server) {
	m.env = append(m.env,
		"DLOCKCTL_LOCK_DSN="+lock.dsn("t_lockapp"), "DLOCKCTL_PAY_DSN="+pay.dsn("t_resource"), "DLOCKCTL_RAIL_DSN="+pay.dsn("t_rail"),
		"LOCKDB_AUDITOR="+lock.dsn("t_auditor"), "LOCKDB_OPERATOR="+lock.dsn("t_operator"), "LOCKDB_OWNER="+lock.dsn("t_owner"), "LOCKDB_ADMIN="+lock.dsn("postgres"),
		"PAYDB_AUDITOR="+pay.dsn("t_auditor"), "PAYDB_OPERATOR="+pay.dsn("t_operator"), "PAYDB_OWNER="+pay.dsn("t_owner"), "PAYDB_ADMIN="+pay.dsn("postgres"),
		"PGDATA="+lock.data(), "LOCKDB_PGDATA="+lock.data(), "PAYDB_PGDATA="+pay.data())
}

// migrated applies both schemas, with the accounts, as their owner.
func (m *machine) migrated(t *testing.T, lock, pay *server) {
	t.Helper()
	m.works(lock, pay)
	m.do(t, `DLOCKCTL_SEED=true DLOCKCTL_LOCK_DSN=$LOCKDB_OWNER DLOCKCTL_PAY_DSN=$PAYDB_OWNER dlockctl migrate up --target all`)
}
