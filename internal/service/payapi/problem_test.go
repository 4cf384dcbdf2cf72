package payapi_test

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/dlockctl/dlockctl/internal/instance"
	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/service/payapi"
	"github.com/dlockctl/dlockctl/internal/service/problem"
)

const secret = "planted-host.internal"

type sample struct {
	name   string
	err    error
	status int
	code   string
}

func samples() []sample {
	const big = paystore.Minor(1<<63 - 1)
	return []sample{
		{"FencedError", &paystore.FencedError{Resource: paystore.ResourceLedger, AccountID: "a", PayoutID: "p", Presented: 7, Stored: paystore.MaxToken}, 409, "fenced"},
		{"FencedError", &paystore.FencedError{Resource: paystore.ResourceRail, AccountID: "a", Presented: 7, Stored: 9}, 409, "fenced"},
		{"ClaimedError", &paystore.ClaimedError{PayoutID: "p", By: "w", Token: 7}, 409, "claimed"},
		{"BlockedError", &paystore.BlockedError{PIDs: []int32{1, 2}}, 409, "blocked"},
		{"GateClosedError", &paystore.GateClosedError{Message: "restored", Hint: "plan"}, 503, "pay_gate_closed"},
		{"RejectedError", &paystore.RejectedError{
			Reason: paystore.ReasonInsufficientFunds, AccountID: "a", PayoutID: "p", AmountMinor: big, Currency: "EUR", BalanceMinor: 1, AccountCurrency: "EUR",
		}, 409, "rejected"},
		{"StateError", &paystore.StateError{PayoutID: "p", Have: paystore.Posted, Want: []paystore.State{paystore.Claimed}}, 409, "wrong_state"},
		{"EvidenceError", &paystore.EvidenceError{Message: "in flight", Hint: "wait"}, 409, "evidence"},
		{"ConflictError", &paystore.ConflictError{IdempotencyKey: "k", PayoutID: "p", Field: "amount_minor", Have: "1", Given: "2"}, 409, "idempotency_conflict"},
		{"UnknownOutcomeError", &paystore.UnknownOutcomeError{Doing: "post payout p", Err: errors.New(secret)}, 500, "outcome_unknown"},
		{"UnknownOutcomeError", errors.Join(paystore.ErrInvalid, &paystore.UnknownOutcomeError{Doing: "post payout p", Err: errors.New(secret)}), 500, "outcome_unknown"},
		{"UnreachableError", &paystore.UnreachableError{Doing: "post payout p", Err: errors.New(secret)}, 503, "unreachable"},
		{"UnsafeError", &paystore.UnsafeError{Clause: "K-4.10", Problem: "no trigger", Fix: "enable it"}, 503, "unsafe_database"},
		{"SchemaError", &paystore.SchemaError{Have: 1, Min: 2, Max: 3}, 503, "schema_version"},
		{"SchemaError", &paystore.SchemaError{IsLockdb: true, Min: 2, Max: 3}, 503, "wrong_database"},
		{"ErrNotPrimary", paystore.ErrNotPrimary, 503, "not_primary"},
		{"ErrSameInstance", paystore.ErrSameInstance, 503, "same_instance"},
		{"ErrOverflow", paystore.ErrOverflow, 409, "overflow"},
		{"ErrNotClearable", paystore.ErrNotClearable, 409, "not_clearable"},
		{"ErrNotFound", paystore.ErrNotFound, 404, "not_found"},
		{"ErrInvalid", paystore.ErrInvalid, 422, "invalid_argument"},
		{"RailError", &payapi.RailError{Message: "the rail at h: cut"}, 502, "rail_unreachable"},
	}
}

// A problem turns back into the error it was made of, with all its data, through the
// very bytes of the wire; the database's address is not among them.
//
// Clauses: K-4.4
// Mutation: leave a field out of details.go, or a row out of readers
func TestErrorsGoThereAndBack(t *testing.T) {
	t.Parallel()
	for _, s := range samples() {
		t.Run(s.name+" "+s.code, func(t *testing.T) {
			t.Parallel()
			w := httptest.NewRecorder()
			made := payapi.Problem(fmt.Errorf("post payout p: %w", s.err))
			if err := made.Write(w); err != nil {
				t.Fatal(err)
			}
			if made.Status != s.status || made.Code != s.code || strings.Contains(w.Body.String(), secret) || strings.Contains(made.Detail, "\n") {
				t.Errorf("%d %s, want %d %s: %s", made.Status, made.Code, s.status, s.code, w.Body)
			}
			err := payapi.Error(problem.Read(w.Code, w.Header(), w.Body.Bytes()))
			if err.Error() != made.Detail {
				t.Errorf("it reads %q, and was %q", err, made.Detail)
			}
			sameError(t, s, err)
		})
	}
}

// Both tokens of a fenced write, by the names that other programs read, as a number and as
// digits.
//
// Clauses: K-4.4, K-5.4
// Mutation: rename a field of fenced
func TestFencedOnTheWire(t *testing.T) {
	t.Parallel()
	p := payapi.Problem(&paystore.FencedError{Resource: paystore.ResourceAccount, AccountID: "a", PayoutID: "p", Presented: 7, Stored: paystore.MaxToken})
	const want = `{"resource":"account","account_id":"a","payout_id":"p","presented_token":7,"presented_token_str":"7",` +
		`"stored_token":9007199254740992,"stored_token_str":"9007199254740992"}`
	if diff := cmp.Diff(want, string(p.Details)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// sameError wants err to unwrap to what the sample is.
func sameError(t *testing.T, s sample, err error) {
	t.Helper()
	if strings.HasPrefix(s.name, "Err") {
		if !errors.Is(err, s.err) {
			t.Errorf("%v is no %v", err, s.err)
		}
		return
	}
	want := s.err
	if joined, ok := want.(interface{ Unwrap() []error }); ok {
		want = joined.Unwrap()[1]
	}
	got := reflect.New(reflect.TypeOf(want))
	if !errors.As(err, got.Interface()) {
		t.Fatalf("%v is no %T", err, want)
	}
	// The cause stays with the service.
	cause := cmpopts.IgnoreFields(paystore.UnknownOutcomeError{}, "Err")
	if diff := cmp.Diff(want, got.Elem().Interface(), cause, cmpopts.IgnoreFields(paystore.UnreachableError{}, "Err")); diff != "" {
		t.Errorf("(-was +is):\n%s", diff)
	}
}

// Every error that paystore exports has a sample, and so a row.
//
// Mutation: take a sample away.
func TestEveryErrorOfTheStoreIsKnown(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("../../paystore/errors.go")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`(?m)^type (\w+Error) struct|^\t(Err\w+) += `).FindAllStringSubmatch(string(source), -1)
	if len(names) < 17 {
		t.Fatalf("only %d errors found", len(names))
	}
	known := map[string]bool{}
	for _, s := range samples() {
		known[s.name] = true
	}
	for _, n := range names {
		if name := n[1] + n[2]; !known[name] {
			t.Errorf("%s of paystore has no problem", name)
		}
	}
}

// What a client cannot turn back stays the problem that it was; an unknown outcome
// stays unknown, whatever its details look like.
//
// Clauses: K-2.9
// Mutation: read OutcomeUnknown through detailed
func TestWhatIsNotReadable(t *testing.T) {
	t.Parallel()
	for _, code := range []string{problem.Unexpected, problem.Draining, "made_up"} {
		p := problem.New(503, code, "x")
		if err := payapi.Error(p); !errors.Is(err, p) {
			t.Errorf("%s: %v", code, err)
		}
	}
	p := problem.New(409, problem.Fenced, "x")
	p.Details = []byte(`"text"`)
	if err := payapi.Error(p); !errors.Is(err, p) {
		t.Errorf("fenced without tokens: %v", err)
	}
	p = problem.New(500, problem.OutcomeUnknown, "x")
	if _, unknown := errors.AsType[*paystore.UnknownOutcomeError](payapi.Error(p)); !unknown {
		t.Error("an unknown outcome without details is not unknown any more")
	}
}

// What the server itself refuses is told with its code, and what nobody foresaw tells
// nothing of its cause.
//
// Mutation: put err.Error() into the detail of an unexpected one
func TestOtherErrors(t *testing.T) {
	t.Parallel()
	for _, s := range []sample{
		{"", errors.New(secret), 500, "unexpected"},
		{"", &pgconn.PgError{Code: "42501", Message: "permission denied"}, 500, "permission_denied"},
		{"", &pgconn.PgError{Code: "55P03", Message: "canceling statement due to lock timeout"}, 409, "blocked"},
		{"", &pgconn.PgError{Code: "XX000", Message: "broken"}, 500, "database"},
		{"", &instance.VersionError{Version: "14.1"}, 503, "server_too_old"},
		{"", &instance.EnvironmentError{Database: "paydb", Marked: "prod", Configured: "test"}, 503, "wrong_environment"},
	} {
		p := payapi.Problem(fmt.Errorf("do: %w", s.err))
		if p.Status != s.status || p.Code != s.code || strings.Contains(p.Detail, secret) {
			t.Errorf("%v: %d %s %s", s.err, p.Status, p.Code, p.Detail)
		}
	}
	own := problem.New(503, problem.Draining, "x")
	if p := payapi.Problem(fmt.Errorf("do: %w", own)); p != own {
		t.Errorf("a problem became %v", p)
	}
}
