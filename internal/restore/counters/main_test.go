package counters_test

import (
	"context"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/instance/owner"
	"github.com/dlockctl/dlockctl/internal/lockstore/syncguard"
	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/internal/restore/counters"
	"github.com/dlockctl/dlockctl/migrations"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// world is a database with SyncGuard's tables and the audit.
type world struct {
	db   pgtest.DB
	conn *pgx.Conn
}

func newWorld(t *testing.T, major int) *world {
	t.Helper()
	w := &world{db: pgtest.Servers(t, major).Lock.EmptyDB(t)}
	w.conn = w.db.Conn(t, "super")
	for _, file := range []string{"syncguard/V1__create_locks_and_fence_counters.sql", "audit/syncguard/R__keep_audit.sql"} {
		text, err := fs.ReadFile(migrations.FS, file)
		if err != nil {
			t.Fatal(err)
		}
		w.exec(t, string(text))
	}
	return w
}

func (w *world) exec(t *testing.T, sql string) {
	t.Helper()
	if _, err := w.conn.PgConn().Exec(t.Context(), sql).ReadAll(); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// counter sets where a key's counter stands.
func (w *world) counter(t *testing.T, key string, at int64) {
	t.Helper()
	w.exec(t, fmt.Sprintf(`INSERT INTO syncguard_fence_counters VALUES ('fence:%[1]s', %[2]d, '%[1]s') ON CONFLICT (fence_key) DO UPDATE SET fence = %[2]d`, key, at))
}

// lock writes a lock's row with this fence, whose lease ends so many seconds from now.
func (w *world) lock(t *testing.T, key, fence string, seconds int) {
	t.Helper()
	w.exec(t, fmt.Sprintf(`INSERT INTO syncguard_locks VALUES ('%[1]s', encode(sha256('%[1]s'), 'hex'),
		floor(extract(epoch FROM clock_timestamp()) * 1000) + 1000 * %[3]d, 0, '%[2]s', '%[1]s')`, key, fence, seconds))
}

// counters are where all stand.
func (w *world) counters(t *testing.T) map[string]int64 {
	t.Helper()
	rows, err := w.conn.Query(t.Context(), `SELECT fence_key, fence FROM syncguard_fence_counters`)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int64{}
	var key string
	var fence int64
	if _, err := pgx.ForEachRow(rows, []any{&key, &fence}, func() error { found[key] = fence; return nil }); err != nil {
		t.Fatal(err)
	}
	return found
}

// number is the one number that a query returns.
func (w *world) number(t *testing.T, sql string) (n int64) {
	t.Helper()
	if err := w.conn.QueryRow(t.Context(), sql).Scan(&n); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return n
}

func (w *world) store(t *testing.T, after owner.Hook) *counters.Store {
	t.Helper()
	names, err := syncguard.NamesOf(syncguard.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := counters.Open(t.Context(), counters.StoreOptions{Config: w.db.Config(t, "super"), Names: names, After: after})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(context.WithoutCancel(t.Context())) })
	return s
}

const margin = 1000

func options(observed counters.Observations) counters.Options {
	return counters.Options{Operator: "op", Reason: "restored", Margin: margin, Observed: observed}
}

func forward(t *testing.T, w *world, opts counters.Options) counters.Result {
	t.Helper()
	result, err := counters.FastForward(t.Context(), w.store(t, nil), opts)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// say is the operator's word.
func say(t *testing.T, o counters.Observations, key string, fence int64) {
	t.Helper()
	if err := o.Say(key, fence); err != nil {
		t.Fatal(err)
	}
}

// readFile reads an export.
func readFile(t *testing.T, o counters.Observations, text string) {
	t.Helper()
	if err := o.ReadFile(strings.NewReader(text), "export.csv"); err != nil {
		t.Fatal(err)
	}
}

// plan is what a fast-forward would do.
func plan(t *testing.T, w *world, observed counters.Observations) counters.Plan {
	t.Helper()
	p, err := counters.Prepare(t.Context(), w.store(t, nil), options(observed))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// impatient waits for nobody for long, but long enough to name who is in its way.
func (w *world) impatient(t *testing.T) *counters.Store {
	t.Helper()
	names, err := syncguard.NamesOf(syncguard.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := counters.Open(t.Context(), counters.StoreOptions{Config: w.db.Config(t, "super"), Names: names, LockTimeout: 3 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(context.WithoutCancel(t.Context())) })
	return s
}

// waitsThenCommit lets a process go on once somebody waits for it.
func (w *world) waitsThenCommit(t *testing.T, pid uint32, commit func() error) error {
	t.Helper()
	watch, err := pgx.ConnectConfig(t.Context(), w.db.Config(t, "super"))
	if err != nil {
		return err
	}
	defer watch.Close(context.WithoutCancel(t.Context()))
	for waiting := false; !waiting; {
		err := watch.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid)))`, int32(pid)).Scan(&waiting)
		if err != nil {
			return err
		}
	}
	return commit()
}
