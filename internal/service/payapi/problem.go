package payapi

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/dlockctl/dlockctl/internal/flyway"
	"github.com/dlockctl/dlockctl/internal/instance"
	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/service/problem"
)

// soon is when a refusal that passes by itself is worth another try.
const soon = time.Second

// RailError is returned for a question that the payment rail did not answer, or not
// in a way that counts. What the rail did is unknown (K-5.3).
type RailError struct {
	// Message names the rail's host and says what came instead.
	Message string
}

func (e *RailError) Error() string { return e.Message }

// Problem is how a service answers with an error of paystore, or of this package.
// What it does not know is 500 "unexpected", whose cause only the log has. An address
// of the database shows in none.
func Problem(err error) *problem.Problem {
	if p, ok := problem.From(err); ok {
		return p
	}
	// That something may have been done outranks what caused it (K-2.9).
	if e, ok := errors.AsType[*paystore.UnknownOutcomeError](err); ok {
		return problem.New(http.StatusInternalServerError, problem.OutcomeUnknown, e.Doing+": outcome unknown: the answer was lost").
			WithHint("it may have been done: the same call with the same token tells, and does nothing twice").WithDetails(doing{e.Doing})
	}
	// A sentinel is what was found out; what it is wrapped in says less, if it is an
	// UnreachableError too: paystore/rail's look-up of no payout is.
	for _, find := range []func(error) *problem.Problem{refusalProblem, payoutProblem, sentinelProblem, databaseProblem} {
		if p := find(err); p != nil {
			return p
		}
	}
	return problem.New(http.StatusInternalServerError, problem.Unexpected, "an unexpected error; the service's log has it, by the request's id")
}

// refusalProblem is for what a token or a holder met.
func refusalProblem(err error) *problem.Problem {
	if e, ok := errors.AsType[*paystore.FencedError](err); ok {
		return conflict(problem.Fenced, err, "a later holder has been there: stop this work, and never repeat it with a fresh token").
			WithDetails(fenced{e.Resource, e.AccountID, e.PayoutID, e.Presented, e.Presented.String(), e.Stored, e.Stored.String()})
	}
	if e, ok := errors.AsType[*paystore.ClaimedError](err); ok {
		return conflict(problem.Claimed, err, "a higher token takes it over: acquire the account's lock first").
			WithDetails(claimed{e.PayoutID, e.By, e.Token, e.Token.String()})
	}
	if e, ok := errors.AsType[*paystore.BlockedError](err); ok {
		return blockedProblem(err, e.PIDs)
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && e.Code == pgerrcode.LockNotAvailable {
		return blockedProblem(err, nil) // a read that somebody keeps waiting
	}
	if e, ok := errors.AsType[*paystore.GateClosedError](err); ok {
		return unavailable(problem.PayGateClosed, oneLine(err)).WithHint(e.Hint).WithDetails(message{e.Message})
	}
	return nil
}

// payoutProblem is for what the payout or its account does not allow.
func payoutProblem(err error) *problem.Problem {
	if e, ok := errors.AsType[*paystore.RejectedError](err); ok {
		return conflict(problem.Rejected, err, "the account cannot pay this").WithDetails(rejected{
			e.Reason, e.AccountID, e.PayoutID, e.AmountMinor, e.AmountMinor.String(), e.Currency, e.BalanceMinor, e.BalanceMinor.String(), e.AccountCurrency,
		})
	}
	if e, ok := errors.AsType[*paystore.StateError](err); ok {
		return conflict(problem.WrongState, err, "look at the payout again").WithDetails(wrongState{e.PayoutID, e.Have, e.Want})
	}
	if e, ok := errors.AsType[*paystore.EvidenceError](err); ok {
		return conflict(problem.Evidence, err, e.Hint).WithDetails(message{e.Message})
	}
	if e, ok := errors.AsType[*paystore.ConflictError](err); ok {
		return conflict(problem.IdempotencyConflict, err, "another payout needs another key; look at the one that stands").
			WithDetails(otherContent{e.IdempotencyKey, e.PayoutID, e.Field, e.Have, e.Given})
	}
	if e, ok := errors.AsType[*RailError](err); ok {
		return problem.New(http.StatusBadGateway, problem.RailUnreachable, oneLine(err)).
			WithHint("what the rail did is unknown, and nothing was recorded; ask again").WithDetails(message{e.Message}).WithRetryAfter(soon)
	}
	return nil
}

// databaseProblem is for a database that cannot be worked with just now.
func databaseProblem(err error) *problem.Problem {
	if e, ok := errors.AsType[*paystore.UnreachableError](err); ok {
		return unavailable(problem.Unreachable, e.Doing+": paydb does not answer").WithDetails(doing{e.Doing}).WithRetryAfter(soon)
	}
	if e, ok := errors.AsType[*paystore.UnsafeError](err); ok {
		return unavailable(problem.UnsafeDatabase, oneLine(err)).WithHint(e.Fix).WithDetails(unsafeDB{e.Clause, e.Problem})
	}
	if e, ok := errors.AsType[*paystore.SchemaError](err); ok {
		code := problem.SchemaVersion
		if e.IsLockdb {
			code = problem.WrongDatabase
		}
		return unavailable(code, oneLine(err)).WithDetails(schema{e.Have, e.Min, e.Max})
	}
	if _, ok := errors.AsType[*flyway.HistoryError](err); ok {
		return unavailable(problem.UnsafeDatabase, oneLine(err)).WithHint("dlockctl migrate validate --target paydb says more").WithDetails(unsafeDB{"K-9.3", oneLine(err)})
	}
	if _, ok := errors.AsType[*instance.EnvironmentError](err); ok {
		return unavailable(problem.WrongEnvironment, oneLine(err))
	}
	if _, ok := errors.AsType[*instance.VersionError](err); ok {
		return unavailable(problem.ServerTooOld, oneLine(err))
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return problem.Refused("paydb", e.Code, e.Message).WithHint(e.Hint)
	}
	return nil
}

func blockedProblem(err error, pids []int32) *problem.Problem {
	return conflict(problem.Blocked, err, "an open transaction keeps the rows; look it up in pg_stat_activity and end it").
		WithDetails(blocked{pids}).WithRetryAfter(soon)
}

// sentinels are the errors without data.
var sentinels = []struct {
	err    error
	status int
	code   string
}{
	{paystore.ErrNotPrimary, http.StatusServiceUnavailable, problem.NotPrimary},
	{paystore.ErrSameInstance, http.StatusServiceUnavailable, problem.SameInstance},
	{paystore.ErrOverflow, http.StatusConflict, problem.Overflow},
	{paystore.ErrNotClearable, http.StatusConflict, problem.NotClearable},
	{paystore.ErrNotFound, http.StatusNotFound, problem.NotFound},
	{paystore.ErrInvalid, http.StatusUnprocessableEntity, problem.InvalidArgument},
}

func sentinelProblem(err error) *problem.Problem {
	for _, s := range sentinels {
		if errors.Is(err, s.err) {
			return problem.New(s.status, s.code, oneLine(err))
		}
	}
	return nil
}

func conflict(code string, err error, hint string) *problem.Problem {
	return problem.New(http.StatusConflict, code, oneLine(err)).WithHint(hint)
}

func unavailable(code, detail string) *problem.Problem {
	return problem.New(http.StatusServiceUnavailable, code, detail)
}

// oneLine is an error's text as one line, however many its causes wrote.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
