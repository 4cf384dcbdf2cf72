package restore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/etcdtest"
	"github.com/dlockctl/dlockctl/internal/instance/owner"
	"github.com/dlockctl/dlockctl/internal/leaktest"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/mark"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/paystore/floor"
	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/internal/restore"
)

func TestMain(m *testing.M) {
	etcdtest.Main(m, pgtest.Main)
	leaktest.Exit()
}

// world is a pair of databases with an outside mark, and superusers' connections to
// look at and break them.
type world struct {
	dbs       pgtest.Databases
	lock, pay *pgx.Conn
	mark      *mark.Mark
	// grantDir holds the mark that the grants of a test raise: those of mark itself are
	// left as the test set them.
	grantDir string
}

func onMajors(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	for _, major := range pgtest.Majors() {
		t.Run(fmt.Sprint(major), func(t *testing.T) {
			t.Parallel()
			test(t, newWorld(t, major))
		})
	}
}

// newWorld has an outside mark that covers what is issued.
func newWorld(t *testing.T, major int) *world {
	t.Helper()
	dbs := pgtest.Migrated(t, major)
	w := &world{dbs: dbs, lock: dbs.Lock.Conn(t, "super"), pay: dbs.Pay.Conn(t, "super")}
	var id string
	if err := w.lock.QueryRow(t.Context(), `UPDATE outside_mark SET deployment_id = gen_random_uuid(), kept = true, kept_since = now() RETURNING deployment_id`).Scan(&id); err != nil {
		t.Fatal(err)
	}
	w.mark = newMark(t, t.TempDir(), id)
	w.grantDir = t.TempDir()
	newMark(t, w.grantDir, id)
	return w
}

func newMark(t *testing.T, dir, id string) *mark.Mark {
	t.Helper()
	m, err := mark.Open(dir, id)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Create(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	return m
}

func exec(t *testing.T, conn *pgx.Conn, sql string, args ...any) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func one[T any](t *testing.T, conn *pgx.Conn, sql string, args ...any) (v T) {
	t.Helper()
	if err := conn.QueryRow(t.Context(), sql, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// how tells how the stores are opened.
type how struct {
	login     string
	timeout   time.Duration
	terminate bool
	after     owner.Hook
	noPay     bool
	noMark    bool
}

// naming is a lock timeout within which who is in the way is named, on a busy machine
// too.
const naming = 3 * time.Second

// stores opens both databases as an operator does.
func (w *world) stores(t *testing.T, h how) restore.Stores {
	t.Helper()
	if h.login == "" {
		h.login = "t_operator"
	}
	if h.timeout == 0 {
		h.timeout = 10 * time.Second
	}
	lock, err := postgres.OpenRewinder(t.Context(), postgres.RewindOptions{
		Options:   postgres.Options{Config: w.dbs.Lock.Config(t, h.login), Purpose: postgres.Changing, LockTimeout: h.timeout},
		Terminate: h.terminate, After: h.after,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lock.Close(context.WithoutCancel(t.Context())) })
	s := restore.Stores{Lock: lock, Mark: w.mark}
	if h.noMark {
		s.Mark = nil
	}
	if h.noPay {
		s.PayProblem = errors.New("paydb is down")
		return s
	}
	pay, err := floor.Open(t.Context(), floor.Options{
		Options:   paystore.Options{Config: w.dbs.Pay.Config(t, h.login), Purpose: paystore.Changing, LockTimeout: h.timeout},
		Terminate: h.terminate, After: h.after,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pay.Close(context.WithoutCancel(t.Context())) })
	s.Pay = pay
	return s
}

// rewound makes lockdb what a restore to an earlier moment leaves: another timeline
// than the gate knows, and a sequence that has forgotten.
func (w *world) rewound(t *testing.T, last int64) {
	t.Helper()
	exec(t, w.lock, `UPDATE lock_gate SET timeline_id = timeline_id + 7`)
	exec(t, w.lock, `SELECT setval('fencing_token_seq', $1)`, last)
}

// observed makes paydb remember a token.
func (w *world) observed(t *testing.T, token int64) {
	t.Helper()
	exec(t, w.pay, `UPDATE account SET fence = $1 WHERE account_id =
		(SELECT account_id FROM account WHERE account_id NOT IN (SELECT account_id FROM clearing_account) ORDER BY account_id LIMIT 1)`, token)
}

// grantor grants as a service does.
func (w *world) grantor(t *testing.T) *postgres.Store {
	t.Helper()
	store, err := postgres.Open(t.Context(), postgres.Options{Config: w.dbs.Lock.Config(t, "t_lockapp"), Purpose: postgres.Changing, MaxConns: 24, MarkDir: w.grantDir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	return store
}

// hold acquires a key under a session of its own.
func hold(t *testing.T, store lockstore.Store, key string) lockstore.Grant {
	t.Helper()
	session, err := store.CreateSession(t.Context(), "alice", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	grant, err := store.Acquire(t.Context(), lockstore.AcquireParams{Key: key, Owner: "alice", Session: session.ID, TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	return grant
}

func options() restore.Options {
	return restore.Options{Operator: "erin", Reason: "restored from last night's backup"}
}

func forward(t *testing.T, s restore.Stores, opts restore.Options) restore.Result {
	t.Helper()
	result, err := restore.FastForward(t.Context(), s, opts)
	if err != nil {
		t.Fatal(err)
	}
	return result
}
