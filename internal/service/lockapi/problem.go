package lockapi

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/dlockctl/dlockctl/internal/flyway"
	"github.com/dlockctl/dlockctl/internal/instance"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/service/problem"
)

// soon is when to ask again where nobody knows when it may pass.
const soon = time.Second

// NestedProblem is a problem inside another answer: of one key of a batch, or of
// a wait's last try.
type NestedProblem struct {
	Status  int             `json:"status"`
	Code    string          `json:"code"`
	Detail  string          `json:"detail,omitempty"`
	Hint    string          `json:"hint,omitempty"`
	Details json.RawMessage `json:"details,omitempty"`
}

// Nest makes a problem part of another answer.
func Nest(p *problem.Problem) *NestedProblem {
	return &NestedProblem{p.Status, p.Code, p.Detail, p.Hint, p.Details}
}

// Problem is what stood in the nest.
func (n *NestedProblem) Problem() *problem.Problem {
	p := problem.New(n.Status, n.Code, n.Detail)
	p.Hint, p.Details = n.Hint, n.Details
	return p
}

// The details of the problems, by code.
type (
	heldDetails struct {
		Key         string          `json:"key"`
		Token       lockstore.Token `json:"token,omitempty"`
		TokenStr    string          `json:"token_str,omitempty"`
		Owner       string          `json:"owner,omitempty"`
		ExpiresAt   Time            `json:"expires_at,omitempty"`
		RemainingMS int64           `json:"remaining_ms"`
	}
	blockedDetails struct {
		Key  string  `json:"key"`
		PIDs []int32 `json:"pids,omitempty"`
	}
	waitDetails struct {
		Key      string         `json:"key"`
		WaitedMS int64          `json:"waited_ms"`
		Last     *NestedProblem `json:"last,omitempty"`
	}
	doingDetails struct {
		Doing string `json:"doing"`
		Cause string `json:"cause,omitempty"`
	}
	unsafeDetails struct {
		Clause  string `json:"clause"`
		Problem string `json:"problem"`
	}
	schemaDetails struct {
		Have    int  `json:"have"`
		IsPaydb bool `json:"is_paydb,omitempty"`
		Min     int  `json:"min"`
		Max     int  `json:"max"`
	}
	countDetails struct {
		Expected int `json:"expected"`
		Found    int `json:"found"`
	}
	environmentDetails struct {
		Database   string `json:"database"`
		Marked     string `json:"marked"`
		Configured string `json:"configured"`
	}
	reasonDetails struct {
		Reason string `json:"reason"`
	}
	versionDetails struct {
		Version string `json:"version"`
	}
)

// sentinels are the errors that carry no data.
var sentinels = []struct {
	err    error
	status int
	code   string
}{
	{lockstore.ErrSessionLost, http.StatusConflict, problem.SessionLost},
	{lockstore.ErrLockLost, http.StatusConflict, problem.LockLost},
	{lockstore.ErrNotPrimary, http.StatusServiceUnavailable, problem.NotPrimary},
	{lockstore.ErrSameInstance, http.StatusServiceUnavailable, problem.SameInstance},
	{lockstore.ErrNotFound, http.StatusNotFound, problem.NotFound},
	{lockstore.ErrUnsupported, http.StatusNotImplemented, problem.Unsupported},
	{lockstore.ErrInvalid, http.StatusBadRequest, problem.InvalidArgument},
}

// Problem writes an error of the lock store as a problem. The order is that of
// the command line's error table: what is unknown comes first, for an error that
// wraps it must never say "failed" (K-2.9). One that is not known to the table is
// an internal error.
func Problem(err error) *problem.Problem {
	if p, ok := problem.From(err); ok {
		return p
	}
	if p := unsettled(err); p != nil {
		return p
	}
	if p := refused(err); p != nil {
		return p
	}
	for _, s := range sentinels {
		if errors.Is(err, s.err) {
			p := problem.New(s.status, s.code, err.Error())
			if s.status == http.StatusServiceUnavailable {
				p.RetryAfter = soon
			}
			return p
		}
	}
	if e, ok := errors.AsType[*lockstore.UnreachableError](err); ok {
		return problem.New(http.StatusServiceUnavailable, problem.Unreachable, err.Error()).WithRetryAfter(soon).
			WithDetails(doingDetails{e.Doing, text(e.Err)})
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return problem.Refused("lockdb", e.Code, e.Message).WithHint(e.Hint)
	}
	return problem.New(http.StatusInternalServerError, problem.Unexpected, err.Error())
}

// unsettled are the problems of what is unknown or of another's hands.
func unsettled(err error) *problem.Problem {
	if e, ok := errors.AsType[*lockstore.UnknownOutcomeError](err); ok {
		return problem.New(http.StatusInternalServerError, problem.OutcomeUnknown, err.Error()).
			WithHint("it may have been done: look before going on; the same session re-enters, and repeating a release is always safe").
			WithDetails(doingDetails{e.Doing, text(e.Err)})
	}
	if e, ok := errors.AsType[*lockstore.WaitTimeoutError](err); ok {
		details := waitDetails{Key: e.Key, WaitedMS: Milliseconds(e.Waited)}
		p := problem.New(http.StatusConflict, problem.WaitTimeout, err.Error())
		if e.Last != nil {
			last := Problem(e.Last)
			details.Last, p.RetryAfter = Nest(last), last.RetryAfter
		}
		return p.WithDetails(details)
	}
	if e, ok := errors.AsType[*lockstore.HeldError](err); ok {
		return problem.New(http.StatusConflict, problem.Contended, err.Error()).WithRetryAfter(retryAfter(e)).
			WithDetails(heldDetails{e.Key, e.Token, tokenText(e.Token), e.Owner, NewTime(e.ExpiresAt), Milliseconds(e.Remaining)})
	}
	if e, ok := errors.AsType[*lockstore.BlockedError](err); ok {
		return problem.New(http.StatusConflict, problem.Blocked, err.Error()).WithRetryAfter(soon).
			WithHint("an open transaction keeps the key; look it up in pg_stat_activity and end it").
			WithDetails(blockedDetails{e.Key, e.PIDs})
	}
	return nil
}

// refused are the problems of a database that grants nothing, or something else
// than was seen.
func refused(err error) *problem.Problem {
	closed := func(code, hint string, details any) *problem.Problem {
		return problem.New(http.StatusServiceUnavailable, code, err.Error()).WithHint(hint).WithRetryAfter(soon).WithDetails(details)
	}
	if e, ok := errors.AsType[*lockstore.GrantsClosedError](err); ok {
		return closed(problem.GrantsClosed, e.Hint, reasonDetails{e.Reason})
	}
	if e, ok := errors.AsType[*lockstore.UnsafeError](err); ok {
		return closed(problem.UnsafeDatabase, e.Fix, unsafeDetails{e.Clause, e.Problem})
	}
	if e, ok := errors.AsType[*lockstore.SchemaError](err); ok {
		code := problem.SchemaVersion
		if e.IsPaydb {
			code = problem.WrongDatabase
		}
		return closed(code, "", schemaDetails{e.Have, e.IsPaydb, e.Min, e.Max})
	}
	if e, ok := errors.AsType[*instance.EnvironmentError](err); ok {
		return closed(problem.WrongEnvironment, "", environmentDetails{e.Database, e.Marked, e.Configured})
	}
	if e, ok := errors.AsType[*instance.VersionError](err); ok {
		return closed(problem.ServerTooOld, "", versionDetails{e.Version})
	}
	if e, ok := errors.AsType[*flyway.HistoryError](err); ok {
		return closed(problem.SchemaVersion, e.Hint(), nil)
	}
	if e, ok := errors.AsType[*lockstore.CountMovedError](err); ok {
		return problem.New(http.StatusConflict, problem.CountMoved, err.Error()).
			WithHint("look again, then give the new number").WithDetails(countDetails{e.Expected, e.Found})
	}
	return nil
}

// retryAfter is when a holder that does not renew has lapsed.
func retryAfter(e *lockstore.HeldError) time.Duration {
	if e.ExpiresAt.Infinite || e.Remaining <= 0 {
		return soon
	}
	return e.Remaining
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
