package paydb_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/leaktest"
	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/internal/service/httpd"
	"github.com/dlockctl/dlockctl/internal/service/httpdtest"
	"github.com/dlockctl/dlockctl/internal/service/paydb"
)

func TestMain(m *testing.M) {
	pgtest.Main(m)
	leaktest.Exit()
}

func open(t *testing.T, login *pgx.ConnConfig, role paydb.Role, log *httpdtest.Log) (*paydb.Link, error) {
	t.Helper()
	link, err := paydb.Open(t.Context(), paydb.Options{
		Options: paystore.Options{Config: login, MaxConns: 4}, Role: role, Log: slog.New(slog.NewTextHandler(log, nil)),
	})
	if err == nil {
		t.Cleanup(link.Close)
	}
	return link, err
}

// conditions are what readiness says, as "name state reason".
func conditions(ctx context.Context, link *paydb.Link) string {
	var lines []string
	for _, c := range link.Ready(ctx) {
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s %s %s", c.Name, c.State, c.Reason)))
	}
	return strings.Join(lines, "\n")
}

const allGood = "paydb ok\npay_gate ok\nfence_floor ok"

func becomes(t *testing.T, link *paydb.Link, want string) {
	t.Helper()
	pgtest.Eventually(t, "readiness becomes "+want, func(ctx context.Context) (bool, error) { return conditions(ctx, link) == want, nil })
}

// Clauses: K-4.6
// Mutation: misspell a column in queries/status.sql.
func TestQueriesPrepare(t *testing.T) {
	t.Parallel()
	files := pgtest.QueryTexts(t, paydb.QueryFiles())
	pgtest.LeavesNoState(t, paydb.Queries())
	for _, major := range pgtest.Majors() {
		t.Run(fmt.Sprint(major), func(t *testing.T) {
			t.Parallel()
			dbs := pgtest.Migrated(t, major)
			for _, login := range []string{"t_resource", "t_rail"} {
				conn := dbs.Pay.Conn(t, login)
				pgtest.Prepares(t, conn, paydb.Queries(), files)
				for name, sql := range paydb.Queries() {
					nulls := regexp.MustCompile(`\$\d+`).ReplaceAllString(sql, "NULL")
					if _, err := conn.Exec(t.Context(), nulls); err != nil {
						t.Errorf("queries/%s.sql as %s: %v", name, login, err)
					}
				}
			}
		})
	}
}

// Each role opens for its own service and for no other; the error names login and role.
//
// Clauses: K-4.6
// Mutation: swap own and other in checkRole.
func TestRoles(t *testing.T) {
	t.Parallel()
	dbs := pgtest.Migrated(t, 16)
	for _, tt := range []struct {
		login string
		role  paydb.Role
		ok    bool
	}{
		{"t_resource", paydb.Resource, true},
		{"t_rail", paydb.Rail, true},
		{"t_resource", paydb.Rail, false},
		{"t_rail", paydb.Resource, false},
		{"t_owner", paydb.Rail, false},
		{"t_auditor", paydb.Resource, false},
	} {
		link, err := open(t, dbs.Pay.Config(t, tt.login), tt.role, &httpdtest.Log{})
		role, refused := errors.AsType[*paydb.RoleError](err)
		if tt.ok != (err == nil) || refused == tt.ok || refused && (role.Login != tt.login || role.Role != tt.role) {
			t.Errorf("%s as %s: %v", tt.login, tt.role, err)
		}
		if err == nil && conditions(t.Context(), link) != allGood {
			t.Errorf("%s as %s: %s", tt.login, tt.role, conditions(t.Context(), link))
		}
	}
}

// A paydb that was down when the service started is opened when it is there; one that
// goes away is told as down, and is used again when it is back, without a restart.
//
// Clauses: K-6.3
// Mutation: keep the first failure in state for ever, or treat Unreachable as final in Open.
func TestPaydbGoesAndComes(t *testing.T) {
	t.Parallel()
	dbs := pgtest.Migrated(t, 16)
	v := newValve(t, dbs.Pay.Server)
	log := &httpdtest.Log{}
	link, err := open(t, v.config(dbs.Pay.Config(t, "t_resource")), paydb.Resource, log)
	if err != nil {
		t.Fatalf("down at start: %v", err)
	}
	const down = "paydb failed down: paydb does not answer"
	becomes(t, link, down)
	if _, err := link.DB(t.Context()); !isUnreachable(err) {
		t.Errorf("while it is down: %v", err)
	}
	for range 2 {
		v.turn(true)
		becomes(t, link, allGood)
		v.turn(false)
		becomes(t, link, down)
	}
	if text := log.String(); strings.Count(text, "paydb is not open") != 1 || strings.Count(text, "paydb is open again") != 1 {
		t.Errorf("the log says it more than once:\n%s", text)
	}
}

// A caller that gives up does not end the try for the others, and waits no longer than
// it said.
//
// Mutation: open with the caller's own context.
func TestCallerInAHurry(t *testing.T) {
	t.Parallel()
	dbs := pgtest.Migrated(t, 16)
	v := newValve(t, dbs.Pay.Server)
	link, err := open(t, v.config(dbs.Pay.Config(t, "t_resource")), paydb.Resource, &httpdtest.Log{})
	if err != nil {
		t.Fatal(err)
	}
	v.turn(true)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	pgtest.Eventually(t, "it is opened for the next one", func(context.Context) (bool, error) {
		_, err := link.DB(gone)
		return err == nil, nil
	})
}

// A standby is told as one, at start and afterwards, and is no reason to end: it may be
// promoted.
//
// Clauses: K-6.3
// Mutation: drop ErrNotPrimary from passing.
func TestStandby(t *testing.T) {
	t.Parallel()
	single := pgtest.Crashable(t, 16)
	single.Stop(t)
	if err := os.WriteFile(filepath.Join(single.Dir, "data", "standby.signal"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	single.Start(t)
	config := pgtest.DB{Server: single.Server, Name: "postgres"}.Config(t, "super")
	link, err := open(t, config, paydb.Resource, &httpdtest.Log{})
	if err != nil {
		t.Fatalf("a standby at start: %v", err)
	}
	if got := conditions(t.Context(), link); !strings.HasPrefix(got, "paydb failed ") || !strings.Contains(got, paystore.ErrNotPrimary.Error()) {
		t.Errorf("readiness: %s", got)
	}
}

// The gate and the floor are told as they stand.
//
// Clauses: K-7.9, K-4.12
// Mutation: leave a case out of gate, or pass the other point to status.
func TestGateAndFloor(t *testing.T) {
	t.Parallel()
	for _, major := range pgtest.Majors() {
		t.Run(fmt.Sprint(major), func(t *testing.T) {
			t.Parallel()
			dbs := pgtest.Migrated(t, major)
			super := dbs.Pay.Conn(t, "super")
			exec := func(sql string) {
				t.Helper()
				if _, err := super.Exec(t.Context(), sql); err != nil {
					t.Fatal(err)
				}
			}
			link, err := open(t, dbs.Pay.Config(t, "t_rail"), paydb.Rail, &httpdtest.Log{})
			if err != nil {
				t.Fatal(err)
			}
			exec(`UPDATE pay_gate SET closed_by = 'erin', closed_at = now(), closed_reason = 'copied'`)
			if got := conditions(t.Context(), link); got != "paydb ok\npay_gate warning closed by erin: copied\nfence_floor ok" {
				t.Errorf("closed by hand: %s", got)
			}
			exec(`ALTER TABLE pay_gate DISABLE TRIGGER USER`)
			exec(`UPDATE pay_gate SET closed_by = NULL, closed_at = NULL, closed_reason = NULL, timeline_id = timeline_id + 1`)
			if got := conditions(t.Context(), link); !strings.Contains(got, "pay_gate warning closed: paydb was restored, promoted or copied") {
				t.Errorf("restored: %s", got)
			}
			exec(`UPDATE pay_gate SET timeline_id = timeline_id - 1`)
			exec(`ALTER TABLE fence_floor DISABLE TRIGGER USER`)
			exec(`DELETE FROM fence_floor WHERE point = 'account'`)
			if got := conditions(t.Context(), link); got != allGood {
				t.Errorf("the other point's floor is missing: %s", got)
			}
			exec(`DELETE FROM fence_floor WHERE point = 'rail'`)
			if got := conditions(t.Context(), link); !strings.Contains(got, "fence_floor failed the floor of rail is missing") {
				t.Errorf("the floor is missing: %s", got)
			}
		})
	}
}

// Mutation: return Good from Fencing.
func TestFencing(t *testing.T) {
	t.Parallel()
	if c := paydb.Fencing("x.enabled", false); c.State != httpd.Good || c.Reason != "" {
		t.Errorf("on: %+v", c)
	}
	if c := paydb.Fencing("x.enabled", true); c.State != httpd.Warning || !strings.HasPrefix(c.Reason, "FENCING IS OFF (x.enabled=false)") {
		t.Errorf("off: %+v", c)
	}
}

func isUnreachable(err error) bool {
	_, ok := errors.AsType[*paystore.UnreachableError](err)
	return ok
}

// valve stands before a server: shut it cuts every connection, and those that come.
type valve struct {
	listener net.Listener
	server   string

	mu    sync.Mutex
	open  bool
	conns []net.Conn
}

func newValve(t *testing.T, server pgtest.Server) *valve {
	t.Helper()
	var lc net.ListenConfig
	listener, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	v := &valve{listener: listener, server: net.JoinHostPort("127.0.0.1", strconv.Itoa(server.Port))}
	done := make(chan struct{})
	go func() {
		defer close(done)
		v.serve(t.Context())
	}()
	t.Cleanup(func() { _ = listener.Close(); <-done; v.turn(false) })
	return v
}

func (v *valve) config(config *pgx.ConnConfig) *pgx.ConnConfig {
	config = config.Copy()
	config.Host, config.Port, config.Fallbacks = "127.0.0.1", uint16(v.listener.Addr().(*net.TCPAddr).Port), nil
	return config
}

func (v *valve) turn(open bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.open = open; open {
		return
	}
	for _, c := range v.conns {
		_ = c.Close()
	}
	v.conns = nil
}

func (v *valve) serve(ctx context.Context) {
	for {
		client, err := v.listener.Accept()
		if err != nil {
			return
		}
		server, err := (&net.Dialer{}).DialContext(ctx, "tcp", v.server)
		if err != nil {
			_ = client.Close()
			continue
		}
		v.mu.Lock()
		v.conns = append(v.conns, client, server)
		if !v.open {
			_, _ = client.Close(), server.Close()
		}
		v.mu.Unlock()
		for _, pipe := range [][2]net.Conn{{client, server}, {server, client}} {
			go func() {
				_, _ = io.Copy(pipe[0], pipe[1])
				_, _ = pipe[0].Close(), pipe[1].Close()
			}()
		}
	}
}
