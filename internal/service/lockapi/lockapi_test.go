package lockapi_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/dlockctl/dlockctl/internal/instance"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/service/lockapi"
	"github.com/dlockctl/dlockctl/internal/service/problem"
)

var at = lockstore.Time{Time: time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC)}

// samples has every error of the store.
func samples() map[string]error {
	held := &lockstore.HeldError{Key: "k", Owner: "o", Token: 7, ExpiresAt: at, Remaining: 1500 * time.Millisecond}
	return map[string]error{
		"ErrLockLost":         lockstore.ErrLockLost,
		"ErrSessionLost":      lockstore.ErrSessionLost,
		"ErrNotFound":         lockstore.ErrNotFound,
		"ErrNotPrimary":       lockstore.ErrNotPrimary,
		"ErrSameInstance":     lockstore.ErrSameInstance,
		"ErrUnsupported":      lockstore.ErrUnsupported,
		"ErrInvalid":          lockstore.ErrInvalid,
		"HeldError":           held,
		"HeldError for ever":  &lockstore.HeldError{Key: "k", Owner: "o", Token: lockstore.MaxToken, ExpiresAt: lockstore.Time{Infinite: true}},
		"HeldError nobody":    &lockstore.HeldError{Key: "k"},
		"BlockedError":        &lockstore.BlockedError{Key: "k", PIDs: []int32{4, 5}},
		"GrantsClosedError":   &lockstore.GrantsClosedError{Reason: "frozen", Hint: "thaw"},
		"UnknownOutcomeError": &lockstore.UnknownOutcomeError{Doing: "acquire", Err: errors.New("cut")},
		"UnreachableError":    &lockstore.UnreachableError{Doing: "acquire", Err: errors.New("refused")},
		"UnsafeError":         &lockstore.UnsafeError{Clause: "K-1.1", Problem: "no trigger", Fix: "enable it"},
		"SchemaError":         &lockstore.SchemaError{Have: 1, Min: 2, Max: 3},
		"SchemaError paydb":   &lockstore.SchemaError{IsPaydb: true, Min: 2, Max: 3},
		"CountMovedError":     &lockstore.CountMovedError{Expected: 1, Found: 2},
		"WaitTimeoutError":    &lockstore.WaitTimeoutError{Key: "k", Waited: time.Minute, Last: held},
		"EnvironmentError":    &instance.EnvironmentError{Database: "lockdb", Marked: "prod", Configured: "test"},
		"VersionError":        &instance.VersionError{Version: "14.1"},
	}
}

// What the server says a client has as the store's own error, with every field,
// and in the server's words.
//
// Clauses: K-2.9
// Mutation: leave out a case of typed or a field of the details.
func TestErrorsSurviveTheWire(t *testing.T) {
	t.Parallel()
	same := cmp.Options{
		cmp.Comparer(func(a, b lockstore.Time) bool { return a.Infinite == b.Infinite && a.Equal(b.Time) }),
		cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Err" }, cmp.Comparer(func(a, b error) bool { return a.Error() == b.Error() })),
	}
	for name, want := range samples() {
		said := fmt.Errorf("do something: %w", want)
		got := lockapi.Error(overTheWire(t, lockapi.Problem(said)))
		if got.Error() != said.Error() {
			t.Errorf("%s: in other words: %q", name, got)
		}
		if reflect.TypeOf(want) == reflect.TypeFor[*lockstore.HeldError]() || strings.HasSuffix(strings.Fields(name)[0], "Error") {
			found := reflect.New(reflect.TypeOf(want))
			if !errors.As(got, found.Interface()) {
				t.Errorf("%s became %T %v", name, got, got)
				continue
			}
			if diff := cmp.Diff(want, found.Elem().Interface(), same); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
			continue
		}
		if !errors.Is(got, want) {
			t.Errorf("%s became %T %v", name, got, got)
		}
	}
}

func overTheWire(t *testing.T, p *problem.Problem) *problem.Problem {
	t.Helper()
	body, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	return problem.Read(p.Status, p.GetHeaders(), body)
}

// Every error that the store exports has a sample above, so that a new one
// without a way over the wire fails here. The gate is not moved over HTTP.
//
// Mutation: take a sample out.
func TestEveryErrorOfTheStoreIsSampled(t *testing.T) {
	t.Parallel()
	have := samples()
	names := exportedErrors(t, "../../lockstore")
	if len(names) < 12 {
		t.Fatalf("only %v found: the search is broken", names)
	}
	for _, name := range names {
		if _, ok := have[name]; !ok && name != "GateMovedError" {
			t.Errorf("%s has no sample", name)
		}
	}
}

func exportedErrors(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	files = slices.DeleteFunc(files, func(f string) bool { return strings.HasSuffix(f, "_test.go") })
	var names []string
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.TypeSpec:
				if n.Name.IsExported() && strings.HasSuffix(n.Name.Name, "Error") {
					names = append(names, n.Name.Name)
				}
			case *ast.ValueSpec:
				if n.Names[0].IsExported() && strings.HasPrefix(n.Names[0].Name, "Err") {
					names = append(names, n.Names[0].Name)
				}
			}
			return true
		})
	}
	return names
}

// The statuses and the advice when to ask again are what proxies and clients of
// any language decide by.
//
// Mutation: swap two statuses, or leave RetryAfter out.
func TestStatuses(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]struct {
		status int
		code   string
		retry  string
	}{
		"HeldError":           {http.StatusConflict, "contended", "2"}, // 1.5 s, rounded up
		"HeldError for ever":  {http.StatusConflict, "contended", "1"},
		"WaitTimeoutError":    {http.StatusConflict, "wait_timeout", "2"},
		"BlockedError":        {http.StatusConflict, "blocked", "1"},
		"ErrSessionLost":      {http.StatusConflict, "session_lost", ""},
		"ErrLockLost":         {http.StatusConflict, "lock_lost", ""},
		"ErrNotFound":         {http.StatusNotFound, "not_found", ""},
		"ErrInvalid":          {http.StatusBadRequest, "invalid_argument", ""},
		"GrantsClosedError":   {http.StatusServiceUnavailable, "grants_closed", "1"},
		"ErrNotPrimary":       {http.StatusServiceUnavailable, "not_primary", "1"},
		"UnreachableError":    {http.StatusServiceUnavailable, "unreachable", "1"},
		"UnknownOutcomeError": {http.StatusInternalServerError, "outcome_unknown", ""},
	} {
		p := lockapi.Problem(samples()[name])
		if got := p.GetHeaders().Get("Retry-After"); p.Status != want.status || p.Code != want.code || got != want.retry {
			t.Errorf("%s: %d %s, Retry-After %q; want %d %s %q", name, p.Status, p.Code, got, want.status, want.code, want.retry)
		}
	}
}

// What is unknown never says that it failed, whatever it wraps or stands beside.
//
// Clauses: K-2.9
// Mutation: look for HeldError or UnreachableError before UnknownOutcomeError.
func TestUnknownComesFirst(t *testing.T) {
	t.Parallel()
	unknown := &lockstore.UnknownOutcomeError{Doing: "acquire", Err: &lockstore.UnreachableError{Doing: "release", Err: errors.New("cut")}}
	for _, err := range []error{unknown, errors.Join(&lockstore.HeldError{Key: "k"}, unknown), errors.Join(lockstore.ErrInvalid, unknown)} {
		if p := lockapi.Problem(err); p.Code != "outcome_unknown" {
			t.Errorf("%v: %s", err, p.Code)
		}
	}
}

// A draining server, and one that has not learned its floor, carried nothing out;
// what is not the store's stays a problem.
//
// Mutation: leave Draining or FloorUnknown out of typed.
func TestErrorsOfTheFrame(t *testing.T) {
	t.Parallel()
	if _, ok := errors.AsType[*lockstore.UnreachableError](lockapi.Error(problem.New(503, problem.Draining, "going away"))); !ok {
		t.Error("draining is not unreachable")
	}
	if closed, ok := errors.AsType[*lockstore.GrantsClosedError](lockapi.Error(problem.New(503, problem.FloorUnknown, "not told yet").WithHint("start it"))); !ok || closed.Hint != "start it" {
		t.Error("an unknown floor does not close the grants")
	}
	p := problem.New(401, problem.Unauthenticated, "no key")
	if got, ok := problem.From(lockapi.Error(p)); !ok || got != p {
		t.Errorf("%v became %v", p, got)
	}
	if got := lockapi.Problem(errors.New("never heard of")); got.Status != 500 || got.Code != "unexpected" {
		t.Errorf("an unknown error: %+v", got)
	}
}

// Values keep what they hold, in both forms; session ids are masked unless asked for.
//
// Clauses: K-2.12, K-5.4
// Mutation: leave a field out of a Value, or do not mask.
func TestValuesSurviveTheWire(t *testing.T) {
	t.Parallel()
	same := cmp.Comparer(func(a, b lockstore.Time) bool { return a.Infinite == b.Infinite && a.Equal(b.Time) })
	entry := lockstore.Entry{
		Key: "k", Token: lockstore.MaxToken, Owner: "o", State: lockstore.Unreadable, Session: "11111111-2222-3333-4444-555555555555", AcquiredAt: at, ExpiresAt: lockstore.Time{Infinite: true},
		Age: time.Second, Remaining: -time.Second, Expired: true, SessionExpiresAt: at, BlockedBy: []int32{3},
	}
	wire := lockapi.NewEntry(entry, true)
	if wire.TokenStr != "9007199254740992" {
		t.Errorf("the twin is %q", wire.TokenStr)
	}
	if got, err := wire.Value(); err != nil || !cmp.Equal(entry, got, same) {
		t.Errorf("an entry: %v\n%s", err, cmp.Diff(entry, got, same))
	}
	if masked := lockapi.NewEntry(entry, false).SessionID; strings.Contains(string(entry.Session), masked) || !strings.HasPrefix(masked, "11111111") {
		t.Errorf("the session is shown as %q", masked)
	}
	session := lockstore.Session{ID: "s", Owner: "o", CreatedAt: at, ExpiresAt: at, Remaining: time.Second, Locks: 3, Sent: time.Now()}
	if got, err := lockapi.NewSession(session, true).Value(session.Sent); err != nil || !cmp.Equal(session, got, same) {
		t.Errorf("a session: %v\n%s", err, cmp.Diff(session, got, same))
	}
	grant := lockstore.Grant{Key: "k", Token: 7, Owner: "o", Session: "s", AcquiredAt: at, ExpiresAt: at, TTL: time.Minute, Sent: session.Sent}
	if got, err := lockapi.NewGrant(grant).Value("s", session.Sent); err != nil || !cmp.Equal(grant, got, same) {
		t.Errorf("a grant: %v\n%s", err, cmp.Diff(grant, got, same))
	}
	outcome := lockstore.LockOutcome{
		Outcome: lockstore.Revoked, Key: "k", AuditID: 4, Owner: "o", Token: 7, Presented: 7, Session: "s", SessionEnded: true, Fence: 9,
		AlsoRevoked: []lockstore.LockOutcome{{Outcome: lockstore.Revoked, Key: "l", Token: 8, Presented: 8}},
	}
	if got := lockapi.NewLockOutcome(outcome, true).Value(); !cmp.Equal(outcome, got) {
		t.Errorf("an outcome:\n%s", cmp.Diff(outcome, got))
	}
	record := lockstore.GrantRecord{Key: "k", Token: 7, Owner: "o", Session: "s", GrantedAt: at, EndedAt: at, Ended: "released"}
	if got, err := lockapi.NewGrantRecord(record, true).Value(); err != nil || !cmp.Equal(record, got, same) {
		t.Errorf("a record: %v\n%s", err, cmp.Diff(record, got, same))
	}
	row := lockstore.Revocation{ID: 1, Key: "k", PrevOwner: "o", PrevToken: 7, Operator: "op", Reason: "r", RevokedAt: at, LoginRole: "l", ClientAddress: "c"}
	if got, err := lockapi.NewRevocation(row).Value(); err != nil || !cmp.Equal(row, got, same) {
		t.Errorf("an audit row: %v\n%s", err, cmp.Diff(row, got, same))
	}
	logged := lockstore.OperatorRecord{ID: 1, LoggedAt: at, Action: "a", Operator: "op", Reason: "r", Token: 7, Details: json.RawMessage(`{}`), LoginRole: "l", ClientAddress: "c"}
	if got, err := lockapi.NewOperatorRecord(logged).Value(); err != nil || !cmp.Equal(logged, got, same) {
		t.Errorf("a log record: %v\n%s", err, cmp.Diff(logged, got, same))
	}
	report := lockstore.AuditReport{Revocations: 1, Records: 2, Findings: []lockstore.AuditFinding{{ID: "chain_gap", Where: "3", What: "gone"}}}
	if got := lockapi.NewAuditReport(report).Value(); !cmp.Equal(report, got) {
		t.Errorf("a report:\n%s", cmp.Diff(report, got))
	}
}

// A count of milliseconds that no duration holds is refused before any
// arithmetic; times * 1,000,000 it would wrap to a short lease.
//
// Clauses: K-2.5
// Mutation: multiply without looking.
func TestDurationRefusesWhatWouldWrap(t *testing.T) {
	t.Parallel()
	for _, ms := range []int64{-1, 1 << 62, 9223372036855, 18446744073709 + 30} {
		if d, err := lockapi.Duration("ttl_ms", ms); !errors.Is(err, lockstore.ErrInvalid) {
			t.Errorf("%d: %s, %v", ms, d, err)
		}
	}
	if d, err := lockapi.Duration("ttl_ms", 30000); err != nil || d != 30*time.Second {
		t.Errorf("30000: %s, %v", d, err)
	}
	if _, err := lockapi.Time("yesterday").Value(); err == nil {
		t.Error("a time that is none was read")
	}
}

// What lockdb refused with an error of its own is no unknown outcome: a right that is
// missing says so, and a client does not take it for a lost answer.
//
// Clauses: K-2.9
// Mutation: let it be unexpected, which a client must take for unknown.
func TestRefusalOfTheDatabase(t *testing.T) {
	t.Parallel()
	for sqlstate, code := range map[string]string{"42501": problem.PermissionDenied, "57014": problem.Database} {
		p := lockapi.Problem(fmt.Errorf("acquire: %w", &pgconn.PgError{Code: sqlstate, Message: "no"}))
		if p.Code != code || p.Code == problem.Unexpected || !strings.Contains(p.Detail, "lockdb refused: no (SQLSTATE "+sqlstate+")") {
			t.Errorf("%s: %+v", sqlstate, p)
		}
	}
}
