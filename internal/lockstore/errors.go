package lockstore

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// The errors a caller acts on differently. Those that carry data are types.
var (
	// ErrLockLost is returned by Renew: the lease has lapsed, be it by 1 ms, or
	// the key has moved on to a newer token (K-2.6). Stop the work.
	ErrLockLost = errors.New("lock lost")
	// ErrSessionLost is returned by Acquire and Heartbeat: the session has
	// lapsed or is gone, and every lock under it is void (K-2.3).
	ErrSessionLost = errors.New("session lost")
	// ErrNotFound is returned by Show, Session and Revocation.
	ErrNotFound = errors.New("not found")
	// ErrNotPrimary is returned by Open and every verb: the database is a
	// standby, and nothing is decided from one (K-6.3).
	ErrNotPrimary = errors.New("the lock database is a standby, not the primary")
	// ErrSameInstance is returned by Open: locks and money stand on one
	// PostgreSQL instance (K-6.1).
	ErrSameInstance = errors.New("lockdb and paydb are on the same PostgreSQL instance")
	// ErrUnsupported is wrapped by every method that a backend does not have; its
	// Capabilities say so beforehand.
	ErrUnsupported = errors.New("not supported by this backend")
	// ErrInvalid is wrapped by every refusal of an argument; nothing was sent.
	ErrInvalid = errors.New("invalid argument")
)

// HeldError is returned by Acquire: a live other holds the key (CONTENDED).
type HeldError struct {
	Key       string
	Owner     string
	Token     Token
	ExpiresAt Time
	Remaining time.Duration
}

func (e *HeldError) Error() string { return fmt.Sprintf("lock %q is %s", e.Key, e.By()) }

// By says who holds the lock, as far as it is known: a backend may name no owner.
func (e *HeldError) By() string {
	if e.Owner == "" {
		return "held by another"
	}
	return fmt.Sprintf("held by %q with token %s", e.Owner, e.Token)
}

// BlockedError is returned when another open transaction holds the key longer
// than the store's lock timeout (K-2.11). Nothing was changed.
type BlockedError struct {
	Key  string
	PIDs []int32
}

func (e *BlockedError) Error() string {
	if len(e.PIDs) == 0 {
		return fmt.Sprintf("lock %q is blocked by another open transaction", e.Key)
	}
	pids := make([]string, len(e.PIDs))
	for i, p := range e.PIDs {
		pids[i] = fmt.Sprint(p)
	}
	return fmt.Sprintf("lock %q is blocked by the open transaction of server process %s", e.Key, strings.Join(pids, ", "))
}

// GrantsClosedError is returned by Acquire and Open: lockdb grants nobody
// anything, because it was frozen, restored, promoted or copied (K-7.4, K-7.6).
type GrantsClosedError struct {
	// Reason is the database's own message.
	Reason string
	// Hint is the exact command to run next.
	Hint string
}

func (e *GrantsClosedError) Error() string { return e.Reason }

// UnknownOutcomeError is returned when the connection was lost after the
// request had been sent: it may or may not have been carried out (K-2.9).
type UnknownOutcomeError struct {
	// Doing is a bare verb phrase such as `acquire lock "a"`.
	Doing string
	Err   error
}

func (e *UnknownOutcomeError) Error() string {
	return fmt.Sprintf("%s: outcome unknown: %v", e.Doing, e.Err)
}

func (e *UnknownOutcomeError) Unwrap() error { return e.Err }

// UnreachableError is returned when the database could not be reached, or
// refused the login, before anything was sent.
type UnreachableError struct {
	Doing string
	Err   error
}

func (e *UnreachableError) Error() string { return fmt.Sprintf("%s: %v", e.Doing, e.Err) }

func (e *UnreachableError) Unwrap() error { return e.Err }

// UnsafeError is returned by Open: a guard the contract requires is missing
// from the database, so the store refuses to grant.
type UnsafeError struct {
	// Clause is the contract's number, such as "K-1.1".
	Clause string
	// Problem says what is wrong; Fix is what to run.
	Problem, Fix string
}

func (e *UnsafeError) Error() string { return fmt.Sprintf("%s (%s)", e.Problem, e.Clause) }

// SchemaError is returned by Open: lockdb's schema is older or newer than this
// program works with. An edited or half-done history is a *flyway.HistoryError.
type SchemaError struct {
	// Have is the highest version applied, 0 for none.
	Have int
	// IsPaydb tells that the address leads to paydb instead.
	IsPaydb bool
	// Min and Max are the versions that this program works with.
	Min, Max int
}

func (e *SchemaError) Error() string {
	switch {
	case e.IsPaydb:
		return "the address given for lockdb is that of paydb"
	case e.Have < e.Min:
		return fmt.Sprintf("lockdb's schema is at version %d, older than the %d this program needs", e.Have, e.Min)
	default:
		return fmt.Sprintf("lockdb's schema is at version %d, newer than the %d this program knows", e.Have, e.Max)
	}
}

// CountMovedError is returned by RevokeMany: the grants are not as many as the
// operator saw. Nothing was changed.
type CountMovedError struct{ Expected, Found int }

func (e *CountMovedError) Error() string {
	return fmt.Sprintf("%d grants match, not %d: the locks have moved on since", e.Found, e.Expected)
}

// WaitTimeoutError is returned by Wait: the key did not become free in time.
type WaitTimeoutError struct {
	Key    string
	Waited time.Duration
	// Last is why the last try did not succeed.
	Last error
}

func (e *WaitTimeoutError) Error() string {
	return fmt.Sprintf("waited %s for lock %q: %v", e.Waited.Round(time.Millisecond), e.Key, e.Last)
}

func (e *WaitTimeoutError) Unwrap() error { return e.Last }
