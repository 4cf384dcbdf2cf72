package owner

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5/pgconn"
)

// BlockedError is returned when a lock was not given within the lock timeout.
// The transaction was rolled back.
type BlockedError struct {
	// Doing is a bare verb phrase.
	Doing string
	// Blockers are those at the end of the queue, who wait for nobody; none when
	// they had gone before they could be named.
	Blockers []Process
}

func (e *BlockedError) Error() string {
	if len(e.Blockers) == 0 {
		return e.Doing + ": another transaction held a lock too long"
	}
	names := make([]string, len(e.Blockers))
	for i, p := range e.Blockers {
		names[i] = p.String()
	}
	return fmt.Sprintf("%s: blocked by %s", e.Doing, strings.Join(names, ", "))
}

// RightsError is returned when the login may not do what is needed. Nothing was
// changed.
type RightsError struct {
	Doing string
	// Login is the role that is logged in, "" when there are two, and Missing what it lacks, each as the
	// SQL that a stronger role has to run.
	Login   string
	Missing []string
}

func (e *RightsError) Error() string {
	login := "the login"
	if e.Login != "" {
		login = fmt.Sprintf("role %q", e.Login)
	}
	return fmt.Sprintf("%s: %s may not; missing: %s", e.Doing, login, strings.Join(e.Missing, "; "))
}

// UnknownOutcomeError is returned when COMMIT was sent and its answer lost.
type UnknownOutcomeError struct {
	Doing string
	Err   error
}

func (e *UnknownOutcomeError) Error() string {
	return fmt.Sprintf("%s: outcome unknown: %v", e.Doing, e.Err)
}

func (e *UnknownOutcomeError) Unwrap() error { return e.Err }

// UnreachableError is returned when the database could not be reached, or went
// away before COMMIT was sent: nothing was changed.
type UnreachableError struct {
	Doing string
	Err   error
}

func (e *UnreachableError) Error() string { return fmt.Sprintf("%s: %v", e.Doing, e.Err) }

func (e *UnreachableError) Unwrap() error { return e.Err }

// Denied tells whether the server refused for want of a right.
func Denied(err error) bool { return hasCode(err, pgerrcode.InsufficientPrivilege) }

func hasCode(err error, code string) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && pgErr.Code == code
}

// gone tells whether the connection, not the statement, has failed.
func gone(err error) bool {
	var pgErr *pgconn.PgError
	return !errors.As(err, &pgErr) || pgErr.SeverityUnlocalized == "FATAL" || pgErr.SeverityUnlocalized == "PANIC"
}
