package lockserver_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dlockctl/dlockctl/internal/flyway"
	"github.com/dlockctl/dlockctl/internal/instance"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/internal/service/httpd"
	"github.com/dlockctl/dlockctl/internal/service/lockapi"
	"github.com/dlockctl/dlockctl/internal/service/lockserver"
	"github.com/dlockctl/dlockctl/migrations"
)

// tryAcquire asks for a lock and returns the code of the refusal, "" for a grant.
func (c caller) tryAcquire(t *testing.T, key string, session lockapi.Session) string {
	t.Helper()
	a := c.post(t, "/v1/locks/acquire", lockapi.AcquireRequest{Key: key, SessionID: session.SessionID, TTLMS: 60_000})
	if a.status == http.StatusOK {
		return ""
	}
	return a.problem().Code
}

// failing returns when readiness names the condition as failed, with a reason.
func (s *server) failing(t *testing.T, condition, reason string) {
	t.Helper()
	pgtest.Eventually(t, condition+" fails: "+reason, func(ctx context.Context) (bool, error) {
		status, conditions := s.health(ctx, t)
		c := conditions[condition]
		return status == http.StatusServiceUnavailable && c.State == httpd.Failed && strings.Contains(c.Reason, reason), nil
	})
}

// Nothing is granted before every payment service has told its highest token;
// readiness and the refusal say whose is missing. A token above the last one issued
// is a lockdb that was set back. Who has no payments says so.
//
// Clauses: K-7.6
// Mutation: leave floor.unknown out of look, or return 0 for a service that cannot be
// asked.
func TestFloorIsLearnedFirst(t *testing.T) {
	t.Parallel()
	dbs := pgtest.Migrated(t, 16)
	var up atomic.Bool
	var highest atomic.Int64
	opts := options(dbs.Lock.Config(t, "t_lockapp"))
	opts.NoPayments, opts.Payments = false, []lockserver.FloorSource{
		{Name: "payment-resource", Highest: func(context.Context) (lockstore.Token, error) { return 0, nil }},
		{Name: "rail-proxy", Highest: func(context.Context) (lockstore.Token, error) {
			if !up.Load() {
				return 0, errors.New("connection refused")
			}
			return lockstore.Token(highest.Load()), nil
		}},
	}
	s := serve(t, opts, "")
	c := caller{s, ""}
	s.failing(t, "floor", "rail-proxy has not told")
	session := c.session(t, "alice") // sessions are opened meanwhile
	if code := c.tryAcquire(t, "k", session); code != "floor_unknown" {
		t.Errorf("without a floor: %q", code)
	}
	up.Store(true)
	s.ready(t)
	if code := c.tryAcquire(t, "k", session); code != "" {
		t.Errorf("with a floor: %q", code)
	}
	highest.Store(1 << 40)
	set := serve(t, opts, "")
	set.failing(t, "grants", "paydb holds token")
	if code := (caller{set, ""}).tryAcquire(t, "l", session); code != "grants_closed" {
		t.Errorf("below paydb's highest token: %q", code)
	}
	for _, wrong := range []lockserver.Options{{NoPayments: true, Payments: opts.Payments}, {}} {
		if _, err := lockserver.New(wrong); err == nil {
			t.Errorf("%+v: taken", wrong)
		}
	}
}

// A freeze refuses grants with its reason and lets go of what is held; a thaw is
// noticed without a restart. restore.auto is not called for a freeze, and is for the
// sign of a rewind, once in its time.
//
// Clauses: K-7.4, K-7.6, K-7.10
// Mutation: call Rescue whatever closed the grants, or leave rescueEvery out.
func TestFreezeThawAndRescue(t *testing.T) {
	t.Parallel()
	dbs := pgtest.Migrated(t, 16)
	super := dbs.Lock.Conn(t, "super")
	exec := func(sql string) {
		if _, err := super.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	var mu sync.Mutex
	var called []time.Time
	rescues := func() []time.Time {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(called)
	}
	opts := options(dbs.Lock.Config(t, "t_lockapp"))
	opts.Rescue = func(context.Context) error {
		mu.Lock()
		defer mu.Unlock()
		called = append(called, time.Now())
		return errors.New("a person has to decide")
	}
	s := serve(t, opts, "").ready(t)
	c := caller{s, ""}
	session := c.session(t, "alice")
	grant := c.acquire(t, "k", session)
	exec(`UPDATE lock_gate SET closed_by = 'erin', closed_at = now(), closed_reason = 'drill'`)
	s.failing(t, "grants", "closed by erin")
	if a := c.post(t, "/v1/locks/acquire", lockapi.AcquireRequest{Key: "l", SessionID: session.SessionID, TTLMS: 60_000}); a.status != http.StatusServiceUnavailable ||
		a.problem().Code != "grants_closed" || !strings.Contains(a.problem().Hint, "thaw") || a.problem().RetryAfter == 0 {
		t.Errorf("frozen: %d %s", a.status, a.body)
	}
	if a := c.post(t, "/v1/locks/release", lockapi.ReleaseRequest{Key: "k"}, lockapi.TokenHeader, grant.TokenStr); a.status != http.StatusOK {
		t.Errorf("a release while frozen: %d %s", a.status, a.body)
	}
	if n := len(rescues()); n != 0 {
		t.Errorf("%d rescues from a freeze", n)
	}
	exec(`UPDATE lock_gate SET closed_by = NULL, closed_at = NULL, closed_reason = NULL`)
	s.ready(t)
	if code := c.tryAcquire(t, "k", session); code != "" {
		t.Errorf("after the thaw: %q", code)
	}
	// As a restored lockdb is: opened last on another timeline.
	exec(`UPDATE lock_gate SET timeline_id = timeline_id + 1`)
	s.failing(t, "grants", "restored, promoted or copied")
	pgtest.Eventually(t, "restore.auto is called", func(context.Context) (bool, error) { return len(rescues()) > 0, nil })
	for range 5 { // each looks anew
		s.service.Ready(t.Context())
	}
	for i, all := 1, rescues(); i < len(all); i++ {
		if apart := all[i].Sub(all[i-1]); apart < lockserver.RescueEvery {
			t.Errorf("two rescues within %s, not %s", apart, lockserver.RescueEvery)
		}
	}
}

// While the database is away everything is refused as unreachable and readiness
// says so; when it is back, the same server grants again, what was held is held, and
// what this process has shown is still above all that comes.
//
// Clauses: K-1.3, K-6.3
// Mutation: keep the store in look when it cannot be asked, do not open again, or
// leave outward out.
func TestDatabaseThatComesBack(t *testing.T) {
	t.Parallel()
	single := pgtest.Crashable(t, 16)
	db := single.EmptyDB(t)
	migrate(t, db)
	s := serve(t, options(db.Config(t, "t_lockapp")), "").ready(t)
	c := caller{s, ""}
	session := c.session(t, "alice")
	held := c.acquire(t, "held", session)
	single.Crash(t)
	s.failing(t, "lockdb", "")
	refused := c.post(t, "/v1/locks/acquire", lockapi.AcquireRequest{Key: "k", SessionID: session.SessionID, TTLMS: 60_000})
	_, conditions := s.health(t.Context(), t)
	if refused.problem().Code != "unreachable" {
		t.Errorf("while it is away: %d %s", refused.status, refused.body)
	}
	for _, text := range []string{string(refused.body), conditions["lockdb"].Reason} {
		if strings.Contains(text, "t_lockapp") || strings.Contains(text, fmt.Sprint(single.Port)) {
			t.Errorf("where lockdb is, and as whom it is asked, is told to everybody: %s", text)
		}
	}
	if a := c.post(t, "/v1/locks/release", lockapi.ReleaseRequest{Key: "held"}, lockapi.TokenHeader, held.TokenStr); a.problem().Code != "unreachable" {
		t.Errorf("a release while it is away: %d %s", a.status, a.body)
	}
	single.Start(t)
	s.ready(t)
	other := c.session(t, "bob")
	if code := c.tryAcquire(t, "held", other); code != "contended" {
		t.Errorf("what was held: %q", code)
	}
	if next := c.acquire(t, "next", other); next.Token.Token <= held.Token.Token {
		t.Errorf("token %s after %s", next.TokenStr, held.TokenStr)
	}
}

// A server that runs while lockdb is put back to an older state behind it still
// knows what it has shown: it grants nothing, though it had to open the store anew.
//
// Clauses: K-7.6
// Mutation: leave shown out of open: the store that is opened anew knows nothing.
func TestReopenedStoreKnowsWhatWasShown(t *testing.T) {
	t.Parallel()
	single := pgtest.Crashable(t, 16)
	db := single.EmptyDB(t)
	migrate(t, db)
	data := filepath.Join(single.Dir, "data")
	single.Stop(t)
	copyFolder(t, data, data+".saved")
	single.Start(t)
	s := serve(t, options(db.Config(t, "t_lockapp")), "").ready(t)
	c := caller{s, ""}
	session := c.session(t, "alice")
	var last lockapi.Grant
	for i := range 5 {
		last = c.acquire(t, fmt.Sprint("k", i), session)
	}
	single.Crash(t)
	s.failing(t, "lockdb", "")
	if err := os.RemoveAll(data); err != nil {
		t.Fatal(err)
	}
	copyFolder(t, data+".saved", data)
	single.Start(t)
	s.failing(t, "grants", "its last token is")
	if code := c.tryAcquire(t, "k", c.session(t, "bob")); code != "grants_closed" {
		t.Errorf("after token %s was shown: %q", last.TokenStr, code)
	}
}

func copyFolder(t *testing.T, from, to string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "cp", "-a", from, to).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// migrate makes a lockdb.
func migrate(t *testing.T, db pgtest.DB) {
	t.Helper()
	files, err := flyway.Load(flyway.Location{FS: migrations.FS, Dir: "lockdb"})
	if err != nil {
		t.Fatal(err)
	}
	migrator, err := flyway.Open(t.Context(), db.Config(t, "t_owner"), files, flyway.Options{Owner: instance.OwnerRole})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := migrator.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := migrator.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}
