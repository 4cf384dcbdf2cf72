package rewind_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/devenv/cluster"
	"github.com/dlockctl/dlockctl/internal/flyway"
	"github.com/dlockctl/dlockctl/internal/instance"
	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/migrations"
)

// server is a private instance with one database, reached through its socket alone:
// the folder of it, which only the server's user may enter, is the password.
type server struct {
	cluster.Cluster
	database string
	settings map[string]string
	child    *cluster.Child
}

// port names the socket. Each server has a folder of its own for it.
const port = 5432

// logins are pgtest's, each a member of the group role.
var logins = map[string]string{
	"t_owner": instance.OwnerRole, "t_lockapp": "lockapp", "t_operator": "dlock_operator",
	"t_auditor": "dlock_auditor", "t_resource": "payapp_resource", "t_rail": "payapp_rail",
}

// dsn is a place.
func (s *server) dsn(login string) string {
	if login == "super" {
		login = "postgres"
	}
	return fmt.Sprintf("host=%s port=%d user=%s dbname=%s sslmode=disable", s.Run(), port, login, s.database)
}

// model is a migrated database on a stopped instance, whose data folder is copied for
// each test: the copies are one system, as the copies of a real one are.
type model struct {
	once sync.Once
	made *server
	err  error
}

// models outlive a test, and their folders go with those of pgtest.
var models = func() map[string]*model {
	all := map[string]*model{}
	for _, major := range pgtest.Majors() {
		for _, database := range []string{"lockdb", "paydb"} {
			all[fmt.Sprint(database, major)] = &model{}
		}
	}
	return all
}()

// folders counts the folders made.
var folders atomic.Int64

// folder makes an instance's folder inside of pgtest's, which is swept even after a
// death, and names the programs.
func folder(t *testing.T, major int) cluster.Cluster {
	t.Helper()
	account, err := cluster.ResolveAccount("")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(filepath.Dir(pgtest.Servers(t, major).Lock.Dir), fmt.Sprintf("r%d", folders.Add(1)))
	if err := errors.Join(os.Mkdir(dir, 0o711), os.Chmod(dir, 0o711)); err != nil {
		t.Fatal(err)
	}
	return cluster.Cluster{Bin: os.Getenv(fmt.Sprintf("DLOCKCTL_TEST_PG%d", major)), Dir: dir, Account: account}
}

// newServer starts a copy of the model.
func newServer(t *testing.T, database string, major int, settings map[string]string) *server {
	t.Helper()
	m := models[fmt.Sprint(database, major)]
	peer := pgtest.Migrated(t, major)
	m.once.Do(func() {
		m.made = &server{Cluster: folder(t, major), database: database}
		m.err = m.made.make(t, peer)
	})
	if m.err != nil {
		t.Fatalf("make the model of %s on %d: %v", database, major, m.err)
	}
	s := m.made.copyStopped(t, major, settings)
	s.start(t)
	return s
}

// make runs initdb and migrates, beside peer, and stops.
func (s *server) make(t *testing.T, peer pgtest.Databases) (err error) {
	ctx := context.WithoutCancel(t.Context()) // others share it
	if err := s.Init(ctx, cluster.InitOptions{Superuser: "postgres"}); err != nil {
		return err
	}
	if err := s.configure(); err != nil {
		return err
	}
	if s.child, err = s.StartChild(ctx, port); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.child.Stop(cluster.Fast)) }()
	if err := s.roles(ctx); err != nil {
		return err
	}
	locations := []flyway.Location{{FS: migrations.FS, Dir: s.database}}
	if s.database == "paydb" {
		locations = append(locations, flyway.Location{FS: migrations.FS, Dir: "seed/paydb"})
	}
	catalogue, err := flyway.Load(locations...)
	if err != nil {
		return err
	}
	config, err := pgx.ParseConfig(s.dsn("t_owner"))
	if err != nil {
		return err
	}
	migrator, err := flyway.Open(ctx, config, catalogue, flyway.Options{Owner: instance.OwnerRole})
	if err != nil {
		return err
	}
	if _, err := migrator.Up(ctx); err != nil {
		return errors.Join(err, migrator.Close(ctx))
	}
	return errors.Join(migrator.Close(ctx), s.recordPeer(ctx, peer))
}

func (s *server) roles(ctx context.Context) error {
	config, err := pgx.ParseConfig(strings.Replace(s.dsn("super"), "dbname="+s.database, "dbname=postgres", 1))
	if err != nil {
		return err
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	if _, err := instance.EnsureRoles(ctx, conn); err != nil {
		return err
	}
	for login, group := range logins {
		if _, err := conn.Exec(ctx, fmt.Sprintf("CREATE ROLE %s LOGIN IN ROLE %s", login, group)); err != nil {
			return err
		}
	}
	_, err = conn.Exec(ctx, fmt.Sprintf("CREATE DATABASE %s OWNER %s TEMPLATE template0", s.database, instance.OwnerRole))
	return err
}

// recordPeer lets the model know the instance of the other side (K-6.1).
func (s *server) recordPeer(ctx context.Context, peer pgtest.Databases) error {
	here, err := pgx.Connect(ctx, s.dsn("super"))
	if err != nil {
		return err
	}
	defer here.Close(ctx)
	other := peer.Pay
	if s.database == "paydb" {
		other = peer.Lock
	}
	there, err := pgx.Connect(ctx, other.DSN("super"))
	if err != nil {
		return err
	}
	defer there.Close(ctx)
	if s.database == "paydb" {
		here, there = there, here
	}
	_, _, err = instance.RecordPeers(ctx, here, there)
	return err
}

// configure writes what the server reads at its next start.
func (s *server) configure() error {
	settings := map[string]string{
		"listen_addresses": "", "wal_level": "logical", "shared_buffers": "16MB", "max_connections": "60",
		"max_wal_size": "256MB", "log_min_messages": "warning", "track_functions": "none",
		// No test takes the machine's own memory away.
		"fsync": "off",
	}
	maps.Copy(settings, s.settings)
	return s.Configure(cluster.Config{Port: port, Settings: settings, HBA: []string{"local all all trust", "local replication all trust"}})
}

func (s *server) start(t *testing.T) {
	t.Helper()
	if err := s.configure(); err != nil {
		t.Fatal(err)
	}
	child, err := s.StartChild(t.Context(), port)
	if err != nil {
		t.Fatal(err)
	}
	s.runs(t, child)
}

// runs notes the process, which ends with the test.
func (s *server) runs(t *testing.T, child *cluster.Child) {
	s.child = child
	t.Cleanup(func() {
		if err := child.Stop(cluster.Immediate); err != nil {
			t.Error(err)
		}
	})
}

// stop ends the server; Immediate is a crash.
func (s *server) stop(t *testing.T, mode cluster.Mode) {
	t.Helper()
	if err := s.child.Stop(mode); err != nil {
		t.Fatal(err)
	}
}

// copyStopped is a plain copy of the data folder of a server that does not run.
func (s *server) copyStopped(t *testing.T, major int, settings map[string]string) *server {
	t.Helper()
	copied := &server{Cluster: folder(t, major), database: s.database, settings: settings}
	copied.take(t, s.Data(), nil, nil)
	return copied
}

// take makes the data folder from another, without the contents of the folders and
// the files named in leave, and with the files given.
func (s *server) take(t *testing.T, from string, leave []string, files map[string]string) {
	t.Helper()
	err := filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return gone(err)
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		for _, left := range leave {
			if name == left && !entry.IsDir() || filepath.Dir(name) == left {
				return skip(entry)
			}
		}
		return gone(copyOne(path, filepath.Join(s.Data(), name), entry))
	})
	for name, text := range files {
		err = errors.Join(err, os.WriteFile(filepath.Join(s.Data(), name), []byte(text), 0o600))
	}
	if err := errors.Join(err, os.MkdirAll(s.Run(), 0o700), s.own(s.Data()), s.own(s.Run())); err != nil {
		t.Fatal(err)
	}
}

func skip(entry fs.DirEntry) error {
	if entry.IsDir() {
		return fs.SkipDir
	}
	return nil
}

// gone forgives a file that a running server has removed meanwhile.
func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func copyOne(from, to string, entry fs.DirEntry) error {
	if entry.IsDir() {
		return os.MkdirAll(to, 0o700)
	}
	if !entry.Type().IsRegular() {
		return fmt.Errorf("%s is neither file nor folder", from)
	}
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o600)
}

// own gives a folder with all that is in it to the server's user.
func (s *server) own(dir string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, int(s.Account.UID), int(s.Account.GID)))
	})
}
