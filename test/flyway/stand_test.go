//go:build flyway

// Package flyway_test lets dlockctl's migrator and a real Flyway take turns on one
// database. `make flyway` builds the Flyway (src/main/java) and runs these tests.
package flyway_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/flyway"
	"github.com/dlockctl/dlockctl/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// stand is one database, the folders of migrations that both programs read, and the
// Flyway.
type stand struct {
	peer *peer
	db   pgtest.DB
	dirs []string
	// sessionLock is Flyway's transactional.lock=false. With its default, measured here, Flyway waits for ever in CREATE
	// INDEX CONCURRENTLY for a snapshot that its own other connection holds.
	sessionLock bool
}

// bench is what a test makes its stands from.
type bench struct {
	server pgtest.Server
	peer   *peer
}

// each runs test on both supported versions.
func each(t *testing.T, test func(t *testing.T, b bench)) {
	t.Helper()
	for _, major := range []int{16, 15} {
		t.Run(fmt.Sprintf("pg%d", major), func(t *testing.T) {
			t.Parallel()
			test(t, bench{server: pgtest.Servers(t, major).Lock, peer: startPeer(t)})
		})
	}
}

func (b bench) stand(t *testing.T, files map[string]string) *stand {
	t.Helper()
	s := &stand{peer: b.peer, db: b.server.EmptyDB(t), dirs: []string{t.TempDir()}}
	s.write(t, files)
	return s
}

// write adds or replaces files.
func (s *stand) write(t *testing.T, files map[string]string) {
	t.Helper()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(s.dirs[0], name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// remove takes files away.
func (s *stand) remove(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := os.Remove(filepath.Join(s.dirs[0], name)); err != nil {
			t.Fatal(err)
		}
	}
}

// flyway runs commands that have to succeed and returns what they print.
func (s *stand) flyway(t *testing.T, commands ...string) []string {
	t.Helper()
	lines, err := s.peer.ask(s, commands...)
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// open is dlockctl's migrator over the same folders, as the same role.
func (s *stand) open(t *testing.T) *flyway.Migrator {
	t.Helper()
	var locations []flyway.Location
	for _, dir := range s.dirs {
		locations = append(locations, flyway.Location{FS: os.DirFS(dir)})
	}
	c, err := flyway.Load(locations...)
	if err != nil {
		t.Fatal(err)
	}
	config, err := pgx.ParseConfig(s.db.DSN("t_owner"))
	if err != nil {
		t.Fatal(err)
	}
	m, err := flyway.Open(t.Context(), config, c, flyway.Options{Owner: "dlock_owner", LockTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return m
}

// dlockctl applies what is pending.
func (s *stand) dlockctl(t *testing.T) {
	t.Helper()
	if _, err := s.open(t).Up(t.Context()); err != nil {
		t.Fatalf("dlockctl up: %v", err)
	}
}

// history is every column but the two that hold time.
func (s *stand) history(t *testing.T) []string {
	t.Helper()
	return s.query(t, `SELECT concat_ws('|', installed_rank, coalesce(version, '-'), description, type, script,
	coalesce(checksum::text, '-'), installed_by, success::text) FROM flyway_schema_history ORDER BY installed_rank`)
}

// info is dlockctl's status in the words of Flyway's info.
func (s *stand) info(t *testing.T) []string {
	t.Helper()
	status, err := s.open(t).Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, i := range status.Migrations {
		lines = append(lines, strings.Join([]string{"info", i.Category, i.Version, i.Description, i.Type, string(i.State)}, "|"))
	}
	return lines
}

// query returns one text per row, read as the superuser.
func (s *stand) query(t *testing.T, sql string) []string {
	t.Helper()
	var lines []string
	s.asSuper(t, func(conn *pgx.Conn) error {
		rows, err := conn.Query(t.Context(), sql)
		if err != nil {
			return err
		}
		lines, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	return lines
}

func (s *stand) execute(t *testing.T, sql string) {
	t.Helper()
	s.asSuper(t, func(conn *pgx.Conn) error {
		_, err := conn.Exec(t.Context(), sql)
		return err
	})
}

func (s *stand) asSuper(t *testing.T, use func(*pgx.Conn) error) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.db.DSN("super"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(use(conn), conn.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
}
