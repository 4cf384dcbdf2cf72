package paystore

import (
	"errors"
	"fmt"
	"strings"
)

// The errors a caller acts on differently. Those that carry data are types.
var (
	// ErrInvalid is wrapped by every refusal of an argument; nothing was sent.
	ErrInvalid = errors.New("invalid argument")
	// ErrNotFound is returned for an account or a payout that does not exist.
	ErrNotFound = errors.New("not found")
	// ErrNotPrimary is returned by Open and every verb: the database is a
	// standby, and nothing is decided from one (K-6.3).
	ErrNotPrimary = errors.New("the payment database is a standby, not the primary")
	// ErrSameInstance is returned by Open: locks and money stand on one
	// PostgreSQL instance (K-6.1).
	ErrSameInstance = errors.New("lockdb and paydb are on the same PostgreSQL instance")
	// ErrOverflow is returned when a sum leaves 64 bits of minor units (K-5.4).
	// Nothing was changed.
	ErrOverflow = errors.New("a balance would not fit into 64 bits of minor units")
	// ErrNotClearable is returned by a posting in a currency that no clearing
	// account holds (K-4.7). Nothing was changed.
	ErrNotClearable = errors.New("no clearing account holds the payout's currency")
)

// Resource is what refused a token.
type Resource string

// The resources of a FencedError.
const (
	// ResourceAccount: account.fence stands at or above the token (K-4.1 (a)).
	ResourceAccount Resource = "account"
	// ResourceLedger: the fence moved on between (a) and a leg (K-4.1 (b)).
	ResourceLedger Resource = "ledger"
	// ResourceRail: the rail's mark stands at or above the token (K-4.1 (d)).
	ResourceRail Resource = "rail"
	// ResourcePayout: a token at or above it has claimed the payout (K-5.2).
	ResourcePayout Resource = "payout"
	// ResourceFloor: the token is from before a restore (K-4.12).
	ResourceFloor Resource = "floor"
)

// FencedError is returned when a token came too late: a higher one, or the same
// one for another payout, has been there (K-4.3). Stop the work; never try again
// with a fresh token.
type FencedError struct {
	Resource  Resource
	AccountID string
	// PayoutID is empty when no payout is concerned.
	PayoutID string
	// Presented is the token of the caller, Stored the one that outranks it.
	Presented, Stored Token
}

func (e *FencedError) Error() string {
	var where string
	switch e.Resource {
	case ResourceAccount, ResourceLedger:
		where = "account " + e.AccountID
	case ResourcePayout:
		where = "payout " + e.PayoutID
	case ResourceRail:
		where = "the rail's mark of account " + e.AccountID
	case ResourceFloor:
		where = "the floor, below which every token is from before a restore,"
	}
	return fmt.Sprintf("fenced out: token %s is too old, %s stands at %s", e.Presented, where, e.Stored)
}

// Reason is why a payout cannot be paid, however often it is tried.
type Reason string

// The reasons of a business rejection (K-4.3).
const (
	ReasonNoAccount         Reason = "no_account"
	ReasonCurrencyMismatch  Reason = "currency_mismatch"
	ReasonInsufficientFunds Reason = "insufficient_funds"
)

// RejectedError is returned when the account cannot pay. The payout is to be
// FAILED.
type RejectedError struct {
	Reason    Reason
	AccountID string
	PayoutID  string
	// AmountMinor and Currency are the payout's.
	AmountMinor Minor
	Currency    string
	// BalanceMinor and AccountCurrency are what the account has, where it exists.
	BalanceMinor    Minor
	AccountCurrency string
}

func (e *RejectedError) Error() string {
	switch e.Reason {
	case ReasonNoAccount:
		return fmt.Sprintf("account %s does not exist", e.AccountID)
	case ReasonCurrencyMismatch:
		return fmt.Sprintf("account %s holds %s, not %s", e.AccountID, e.AccountCurrency, e.Currency)
	default:
		return fmt.Sprintf("account %s has %s minor units of %s, and %s are needed", e.AccountID, e.BalanceMinor, e.Currency, e.AmountMinor)
	}
}

// StateError is returned when the payout is in a state that has no such arrow.
// Nothing was changed.
type StateError struct {
	PayoutID string
	Have     State
	// Want are the states that the arrow leaves.
	Want []State
}

func (e *StateError) Error() string {
	want := make([]string, len(e.Want))
	for i, s := range e.Want {
		want[i] = string(s)
	}
	return fmt.Sprintf("payout %s is %s, not %s", e.PayoutID, e.Have, strings.Join(want, " or "))
}

// ConflictError is returned by Create: the idempotency key, or the payout's id,
// belongs to a payout of other content. Nothing was changed.
type ConflictError struct {
	IdempotencyKey string
	// PayoutID is the payout that stands.
	PayoutID string
	// Field is the column that differs; Have is what stands, Given what was sent.
	Field, Have, Given string
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("payout %s with idempotency key %q has %s %s, not %s", e.PayoutID, e.IdempotencyKey, e.Field, e.Have, e.Given)
}

// ClaimedError is returned when another holder has the payout (CONTENDED): take
// it over with a higher token.
type ClaimedError struct {
	PayoutID string
	By       string
	Token    Token
}

func (e *ClaimedError) Error() string {
	return fmt.Sprintf("payout %s is claimed by %q with token %s", e.PayoutID, e.By, e.Token)
}

// GateClosedError is returned by a claim and a rail attempt: paydb was restored,
// promoted, copied or closed, and the payout has not been compared with the
// rail's own record since (K-7.9).
type GateClosedError struct {
	// Message is the database's own.
	Message string
	// Hint is the exact command to run next.
	Hint string
}

func (e *GateClosedError) Error() string { return e.Message }

// BlockedError is returned when another open transaction holds the rows longer
// than the lock timeout (K-2.11). Nothing was changed.
type BlockedError struct {
	// PIDs are the server processes that hold them, as far as it could be told.
	PIDs []int32
}

func (e *BlockedError) Error() string {
	if len(e.PIDs) == 0 {
		return "blocked by another open transaction"
	}
	return "blocked by the open transaction of server process " + strings.Trim(fmt.Sprint(e.PIDs), "[]")
}

// UnknownOutcomeError is returned when the connection was lost after COMMIT had
// been sent: it may or may not have been carried out (K-2.9). Repeating it with
// the same token is safe.
type UnknownOutcomeError struct {
	// Doing is a bare verb phrase such as "post payout 7f…".
	Doing string
	Err   error
}

func (e *UnknownOutcomeError) Error() string {
	return fmt.Sprintf("%s: outcome unknown: %v", e.Doing, e.Err)
}

func (e *UnknownOutcomeError) Unwrap() error { return e.Err }

// UnreachableError is returned when the database could not be reached, or
// refused the login, before anything was carried out.
type UnreachableError struct {
	Doing string
	Err   error
}

func (e *UnreachableError) Error() string { return fmt.Sprintf("%s: %v", e.Doing, e.Err) }

func (e *UnreachableError) Unwrap() error { return e.Err }

// UnsafeError is returned by Open: a guard the contract requires is missing from
// the database, so no money moves.
type UnsafeError struct {
	// Clause is the contract's number, such as "K-4.10".
	Clause string
	// Problem says what is wrong; Fix is what to run.
	Problem, Fix string
}

func (e *UnsafeError) Error() string { return fmt.Sprintf("%s (%s)", e.Problem, e.Clause) }

// SchemaError is returned by Open: paydb's schema is older or newer than this
// program works with. An edited or half-done history is a *flyway.HistoryError.
type SchemaError struct {
	// Have is the highest version applied, 0 for none.
	Have int
	// IsLockdb tells that the address leads to lockdb instead.
	IsLockdb bool
	// Min and Max are the versions that this program works with.
	Min, Max int
}

func (e *SchemaError) Error() string {
	switch {
	case e.IsLockdb:
		return "the address given for paydb is that of lockdb"
	case e.Have < e.Min:
		return fmt.Sprintf("paydb's schema is at version %d, older than the %d this program needs", e.Have, e.Min)
	default:
		return fmt.Sprintf("paydb's schema is at version %d, newer than the %d this program knows", e.Have, e.Max)
	}
}

// EvidenceError is returned when the rail's attempt, or the evidence on record, says
// otherwise or nothing yet (K-5.3). Nothing was changed.
type EvidenceError struct {
	// Message says what stands in the way, Hint what to do next.
	Message, Hint string
}

func (e *EvidenceError) Error() string { return e.Message }
