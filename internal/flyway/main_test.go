package flyway_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/flyway"
	"github.com/dlockctl/dlockctl/internal/pgtest"
)

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		os.Exit(child())
	}
	pgtest.Main(m)
}

// each runs test on both supported versions, each time in an empty database.
func each(t *testing.T, test func(t *testing.T, db pgtest.DB)) {
	t.Helper()
	for _, major := range []int{15, 16} {
		t.Run(fmt.Sprintf("pg%d", major), func(t *testing.T) {
			t.Parallel()
			test(t, pgtest.Servers(t, major).Lock.EmptyDB(t))
		})
	}
}

// files makes a catalogue of name, text, name, text …
func files(t *testing.T, pairs ...string) *flyway.Catalogue {
	t.Helper()
	c, err := flyway.Load(folder(pairs...))
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	return c
}

func folder(pairs ...string) flyway.Location {
	fsys := fstest.MapFS{}
	for i := 0; i < len(pairs); i += 2 {
		fsys[pairs[i]] = &fstest.MapFile{Data: []byte(pairs[i+1])}
	}
	return flyway.Location{FS: fsys}
}

// open is a Migrator of the owner's login, with a short patience and no noise.
func open(t *testing.T, db pgtest.DB, c *flyway.Catalogue, change ...func(*pgx.ConnConfig, *flyway.Options)) *flyway.Migrator {
	t.Helper()
	config, err := pgx.ParseConfig(db.DSN("t_owner"))
	if err != nil {
		t.Fatal(err)
	}
	opts := flyway.Options{Owner: "dlock_owner", LockTimeout: 20 * time.Second}
	for _, f := range change {
		f(config, &opts)
	}
	m, err := flyway.Open(t.Context(), config, c, opts)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() {
		if err := m.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return m
}

// up applies c and fails the test when that fails.
func up(t *testing.T, db pgtest.DB, c *flyway.Catalogue) flyway.Result {
	t.Helper()
	result, err := open(t, db, c).Up(t.Context())
	if err != nil {
		t.Fatalf("up: %v", err)
	}
	return result
}

// line is a history row without what differs from run to run.
func line(r flyway.Row) string {
	version, sum := "-", "-"
	if r.Version != "" {
		version = r.Version
	}
	if r.Checksum != nil {
		sum = fmt.Sprint(*r.Checksum)
	}
	return fmt.Sprintf("%d|%s|%s|%s|%s|%s|%s|%t", r.InstalledRank, version, r.Description, r.Type, r.Script, sum, r.InstalledBy, r.Success)
}

// history reads the table itself, not through the package under test.
func history(t *testing.T, db pgtest.DB) []string {
	t.Helper()
	return value[[]string](t, db, `SELECT array_agg(concat_ws('|', installed_rank, coalesce(version, '-'), description, type,
	script, coalesce(checksum::text, '-'), installed_by, CASE WHEN success THEN 'true' ELSE 'false' END)
	ORDER BY installed_rank) FROM flyway_schema_history`)
}

// execute runs SQL as the superuser.
func execute(t *testing.T, db pgtest.DB, sql string) {
	t.Helper()
	asSuper(t, db, func(conn *pgx.Conn) error {
		_, err := conn.Exec(t.Context(), sql)
		return err
	})
}

// asSuper uses a connection for one question only: a test that polls would otherwise
// pile them up.
func asSuper(t *testing.T, db pgtest.DB, use func(*pgx.Conn) error) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), db.DSN("super"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(use(conn), conn.Close(t.Context())); err != nil {
		t.Fatalf("ask as superuser: %v", err)
	}
}

// value reads one value as the superuser.
func value[T any](t *testing.T, db pgtest.DB, sql string, args ...any) T {
	t.Helper()
	var v T
	asSuper(t, db, func(conn *pgx.Conn) error { return conn.QueryRow(t.Context(), sql, args...).Scan(&v) })
	return v
}

// eventually polls until ok, because the other side is another process.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("never happened: %s", what)
		case <-tick.C:
		}
	}
}
