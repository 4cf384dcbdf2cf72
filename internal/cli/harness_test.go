package cli_test

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dlockctl/dlockctl/internal/cli"
	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// secret stands where a password stands; no output may show it.
const secret = "hunter2-planted"

// fake is a store whose methods a test fills in; it writes down what was
// called. One that was not filled in panics.
type fake struct {
	lockstore.Store

	mu      sync.Mutex
	calls   []string
	purpose app.Purpose
	has     lockstore.Capabilities // the zero value is lockdb's

	acquire   func(ctx context.Context, p lockstore.AcquireParams) (lockstore.Grant, error)
	show      func(key string) (lockstore.Entry, error)
	revoke    func(p lockstore.RevokeParams) (lockstore.LockOutcome, error)
	renew     func(token lockstore.Token, ttl time.Duration) (lockstore.Grant, error)
	release   func(token lockstore.Token) (lockstore.Release, error)
	session   func(id lockstore.SessionID) (lockstore.Session, error)
	end       func(ctx context.Context, id lockstore.SessionID) (int, error)
	heartbeat func(id lockstore.SessionID) (lockstore.Session, error)
	list      func(f lockstore.Filter) ([]lockstore.Entry, error)
	sessions  func(f lockstore.SessionFilter) ([]lockstore.Session, error)
	audit     func(f lockstore.RevocationFilter) ([]lockstore.Revocation, error)
	reap      func(limit int) (lockstore.Reaped, error)
	many      func(p lockstore.RevokeManyParams) ([]lockstore.LockOutcome, error)
	prune     func(olderThan time.Duration, limit int) ([]lockstore.Entry, error)
	log       func(f lockstore.OperatorLogFilter) ([]lockstore.OperatorRecord, error)
	history   func(token lockstore.Token) (lockstore.GrantRecord, error)
}

func (f *fake) note(call string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, call)
}

func (f *fake) called() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.calls, " ")
}

func (f *fake) Acquire(ctx context.Context, p lockstore.AcquireParams) (lockstore.Grant, error) {
	f.note("acquire:" + string(p.Session))
	if f.acquire == nil {
		return lockstore.Grant{Key: p.Key, Token: 106, Owner: p.Owner, Session: p.Session, TTL: p.TTL, Sent: time.Now(), ExpiresAt: at(p.TTL), AcquiredAt: at(0)}, nil
	}
	return f.acquire(ctx, p)
}

func (f *fake) CreateSession(_ context.Context, owner string, ttl time.Duration) (lockstore.Session, error) {
	f.note("create")
	return lockstore.Session{ID: freshSession, Owner: owner, CreatedAt: at(0), ExpiresAt: at(ttl), Remaining: ttl, Sent: time.Now()}, nil
}

func (f *fake) EndSession(ctx context.Context, id lockstore.SessionID) (int, error) {
	f.note("end:" + string(id))
	if f.end == nil {
		return 0, ctx.Err()
	}
	return f.end(ctx, id)
}

func (f *fake) Session(_ context.Context, id lockstore.SessionID) (lockstore.Session, error) {
	f.note("session:" + string(id))
	return f.session(id)
}

func (f *fake) Heartbeat(_ context.Context, id lockstore.SessionID, _ time.Duration) (lockstore.Session, error) {
	f.note("heartbeat:" + string(id))
	return f.heartbeat(id)
}

func (f *fake) Show(_ context.Context, key string) (lockstore.Entry, error) {
	f.note("show:" + key)
	return f.show(key)
}

func (f *fake) Revoke(_ context.Context, p lockstore.RevokeParams) (lockstore.LockOutcome, error) {
	f.note("revoke:" + p.Token.String())
	return f.revoke(p)
}

func (f *fake) Renew(_ context.Context, _ string, token lockstore.Token, ttl time.Duration) (lockstore.Grant, error) {
	f.note("renew:" + token.String())
	return f.renew(token, ttl)
}

func (f *fake) Release(_ context.Context, _ string, token lockstore.Token) (lockstore.Release, error) {
	f.note("release:" + token.String())
	return f.release(token)
}

func (f *fake) List(_ context.Context, filter lockstore.Filter) ([]lockstore.Entry, error) {
	f.note("list")
	return f.list(filter)
}

func (f *fake) Sessions(_ context.Context, filter lockstore.SessionFilter) ([]lockstore.Session, error) {
	f.note("sessions")
	return f.sessions(filter)
}

func (f *fake) Revocations(_ context.Context, filter lockstore.RevocationFilter) ([]lockstore.Revocation, error) {
	f.note("revocations")
	return f.audit(filter)
}

func (f *fake) Revocation(_ context.Context, _ int64) (lockstore.Revocation, error) {
	f.note("revocation")
	rows, err := f.audit(lockstore.RevocationFilter{})
	if err != nil {
		return lockstore.Revocation{}, err
	}
	return rows[0], nil
}

func (f *fake) ReapSessions(_ context.Context, limit int) (lockstore.Reaped, error) {
	f.note("reap")
	return f.reap(limit)
}

func (f *fake) RevokeMany(_ context.Context, p lockstore.RevokeManyParams) ([]lockstore.LockOutcome, error) {
	f.note("revokemany:" + strconv.Itoa(p.Expect))
	return f.many(p)
}

func (f *fake) Prune(_ context.Context, olderThan time.Duration, limit int) ([]lockstore.Entry, error) {
	f.note("prune:" + strconv.Itoa(limit))
	return f.prune(olderThan, limit)
}

func (f *fake) OperatorLog(_ context.Context, filter lockstore.OperatorLogFilter) ([]lockstore.OperatorRecord, error) {
	return f.log(filter)
}

func (f *fake) GrantHistory(_ context.Context, token lockstore.Token) (lockstore.GrantRecord, error) {
	return f.history(token)
}

func (f *fake) VerifyAudit(context.Context) (lockstore.AuditReport, error) {
	return lockstore.AuditReport{Revocations: 1, Records: 1, Findings: []lockstore.AuditFinding{{ID: "guard_off", Where: "w", What: "x"}}}, nil
}

func (f *fake) Close() {}

func (f *fake) Capabilities() lockstore.Capabilities {
	if f.has != (lockstore.Capabilities{}) {
		return f.has
	}
	return lockstore.Capabilities{Backend: "postgres", Sessions: true, GlobalTokens: true, OwnTTL: true, Batches: true, Journal: true}
}

const (
	freshSession = lockstore.SessionID("fresh000-1111-4222-8333-444455556666")
	givenSession = lockstore.SessionID("given000-1111-4222-8333-444455556666")
)

// at is a database time a while after noon.
func at(d time.Duration) lockstore.Time {
	return lockstore.Time{Time: time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC).Add(d)}
}

func entry(token lockstore.Token) lockstore.Entry {
	return lockstore.Entry{
		Key: "account:42", Token: token, Owner: "alice@a", Session: givenSession, AcquiredAt: at(0), ExpiresAt: at(time.Minute),
		Age: 20 * time.Second, Remaining: 40 * time.Second, SessionExpiresAt: at(2 * time.Minute),
	}
}

// result is what one run left.
type result struct {
	exit     app.Exit
	out, err string
}

// run runs the program on the fake store, without a terminal.
func run(t *testing.T, store *fake, args ...string) result {
	t.Helper()
	return runWith(t, t.Context(), store, nil, "", args...)
}

// runWith adds the context, changes to the streams, and what is typed.
func runWith(t *testing.T, ctx context.Context, store *fake, change func(*ui.Streams), in string, args ...string) result { //nolint:revive // t stands first in helpers
	t.Helper()
	streams, out, errOut := ui.Test(in, map[string]string{
		"DLOCKCTL_LOCK_DSN": "host=/nowhere user=u password=" + secret, "DLOCKCTL_OPERATOR": "op@ops",
	})
	if change != nil {
		change(streams)
	}
	a := app.New(streams, args).WithStore(func(_ context.Context, purpose app.Purpose) (lockstore.Store, error) {
		if store == nil {
			t.Errorf("%q opened the database", args)
		}
		store.purpose = purpose
		return store, nil
	})
	r := result{exit: cli.Run(ctx, a, args), out: out.String(), err: errOut.String()}
	if strings.Contains(r.out+r.err, secret) {
		t.Errorf("%q shows the secret: %s%s", args, r.out, r.err)
	}
	return r
}

// terminal makes every stream a terminal.
func terminal(s *ui.Streams) { s.InTTY, s.OutTTY, s.ErrTTY = true, true, true }

// check compares the exit code, and wants stdout and stderr to hold the parts.
func (r result) check(t *testing.T, exit app.Exit, out, errOut string) {
	t.Helper()
	if r.exit != exit {
		t.Errorf("exit %d, want %d", r.exit, exit)
	}
	for _, stream := range []struct{ name, got, want string }{{"stdout", r.out, out}, {"stderr", r.err, errOut}} {
		switch {
		case stream.want == "" && stream.got != "":
			t.Errorf("%s is not empty: %q", stream.name, stream.got)
		case !strings.Contains(stream.got, stream.want):
			t.Errorf("%s %q does not hold %q", stream.name, stream.got, stream.want)
		}
	}
}

// fields decodes one JSON object.
func fields(t *testing.T, text string) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		t.Fatalf("%v in %q", err, text)
	}
	return m
}

// runOn runs the program on any store.
func runOn(t *testing.T, streams *ui.Streams, store lockstore.Store, args ...string) app.Exit {
	t.Helper()
	a := app.New(streams, args).WithStore(func(context.Context, app.Purpose) (lockstore.Store, error) { return store, nil })
	return cli.Run(t.Context(), a, args)
}
