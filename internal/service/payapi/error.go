package payapi

import (
	"encoding/json"
	"errors"

	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/service/problem"
)

// errLost and errAway are the causes that a service does not show: where its
// database is, is its own business.
var (
	errLost = errors.New("the answer was lost")
	errAway = errors.New("paydb does not answer")
)

// said is an error that a service answered with: it reads as the service put it, and
// unwraps to the error that the store returned there.
type said struct {
	text string
	err  error
}

func (e *said) Error() string { return e.text }

func (e *said) Unwrap() error { return e.err }

// Error is the error that [Problem] made the problem of: errors.As and errors.Is find
// it as if the store had been asked directly. A problem that is none of paystore's,
// or whose details cannot be read, is returned as it is.
func Error(p *problem.Problem) error {
	err := errorOf(p)
	if err == nil {
		return p
	}
	return &said{p.Error(), err}
}

func errorOf(p *problem.Problem) error {
	for _, s := range sentinels {
		if p.Code == s.code {
			return s.err
		}
	}
	read, known := readers[p.Code]
	if !known {
		return nil
	}
	return read(p)
}

// readers make an error of a problem's details; nil when they cannot be read.
var readers = map[string]func(*problem.Problem) error{
	problem.Fenced: detailed(func(d fenced, _ string) error {
		return &paystore.FencedError{Resource: d.Resource, AccountID: d.AccountID, PayoutID: d.PayoutID, Presented: d.Presented, Stored: d.Stored}
	}),
	problem.Claimed: detailed(func(d claimed, _ string) error {
		return &paystore.ClaimedError{PayoutID: d.PayoutID, By: d.By, Token: d.Token}
	}),
	problem.Blocked: detailed(func(d blocked, _ string) error { return &paystore.BlockedError{PIDs: d.PIDs} }),
	problem.PayGateClosed: detailed(func(d message, hint string) error {
		return &paystore.GateClosedError{Message: d.Message, Hint: hint}
	}),
	problem.Rejected: detailed(func(d rejected, _ string) error {
		return &paystore.RejectedError{
			Reason: d.Reason, AccountID: d.AccountID, PayoutID: d.PayoutID, AmountMinor: d.AmountMinor, Currency: d.Currency,
			BalanceMinor: d.BalanceMinor, AccountCurrency: d.AccountCurrency,
		}
	}),
	problem.WrongState: detailed(func(d wrongState, _ string) error {
		return &paystore.StateError{PayoutID: d.PayoutID, Have: d.Have, Want: d.Want}
	}),
	problem.Evidence: detailed(func(d message, hint string) error {
		return &paystore.EvidenceError{Message: d.Message, Hint: hint}
	}),
	problem.IdempotencyConflict: detailed(func(d otherContent, _ string) error {
		return &paystore.ConflictError{IdempotencyKey: d.IdempotencyKey, PayoutID: d.PayoutID, Field: d.Field, Have: d.Have, Given: d.Given}
	}),
	problem.RailUnreachable: detailed(func(d message, _ string) error { return &RailError{Message: d.Message} }),
	problem.Unreachable: detailed(func(d doing, _ string) error {
		return &paystore.UnreachableError{Doing: d.Doing, Err: errAway}
	}),
	// Whatever its details say: unknown is never turned into anything else (K-2.9).
	problem.OutcomeUnknown: func(p *problem.Problem) error {
		var d doing
		_ = json.Unmarshal(p.Details, &d)
		return &paystore.UnknownOutcomeError{Doing: d.Doing, Err: errLost}
	},
	problem.UnsafeDatabase: detailed(func(d unsafeDB, fix string) error {
		return &paystore.UnsafeError{Clause: d.Clause, Problem: d.Problem, Fix: fix}
	}),
	problem.SchemaVersion: detailed(func(d schema, _ string) error {
		return &paystore.SchemaError{Have: d.Have, Min: d.Min, Max: d.Max}
	}),
	problem.WrongDatabase: detailed(func(d schema, _ string) error {
		return &paystore.SchemaError{Have: d.Have, IsLockdb: true, Min: d.Min, Max: d.Max}
	}),
}

// detailed reads a problem's details, and passes them on with its hint.
func detailed[T any](of func(details T, hint string) error) func(*problem.Problem) error {
	return func(p *problem.Problem) error {
		var d T
		if json.Unmarshal(p.Details, &d) == nil {
			return of(d, p.Hint)
		}
		return nil
	}
}
