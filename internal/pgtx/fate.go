package pgtx

import (
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Fate is what became of a change.
type Fate int

// The fates.
const (
	// Done: COMMIT has answered, or there was nothing to say no to.
	Done Fate = iota
	// NotDone: the server refused, or the caller's own function did; everything
	// was rolled back.
	NotDone
	// Unsent: the connection failed before anything could be carried out.
	Unsent
	// Unknown: it was sent and the answer is lost, so it may have been carried out
	// or not. Never "failed" (K-2.9).
	Unknown
)

// UnsentError is a failure before the statement itself was sent.
type UnsentError struct{ Err error }

func (e *UnsentError) Error() string { return e.Err.Error() }

func (e *UnsentError) Unwrap() error { return e.Err }

// FateOf reads the fate of a statement that commits by itself, or of a COMMIT,
// from its error. What the server refused was not done; what was sent and not
// answered is unknown.
func FateOf(err error) Fate {
	pgErr, refused := errors.AsType[*pgconn.PgError](err)
	_, undescribed := errors.AsType[pgx.ErrPreprocessingBatch](err)
	_, unsent := errors.AsType[*UnsentError](err)
	switch {
	case err == nil:
		return Done
	case refused && !serverGone(pgErr), errors.Is(err, pgx.ErrTxCommitRollback):
		return NotDone
	case undescribed, unsent, pgconn.SafeToRetry(err):
		return Unsent // describing or preparing a statement does not run it
	default:
		return Unknown // a server that goes away may do so between its commit and its answer
	}
}

// fateBefore reads the fate of what failed before COMMIT was sent: it was not
// done, and the question is only whether the server can still be spoken to.
func fateBefore(conn *pgx.Conn, err error) Fate {
	pgErr, refused := errors.AsType[*pgconn.PgError](err)
	switch {
	case refused && serverGone(pgErr), !refused && conn.IsClosed():
		return Unsent
	default:
		return NotDone
	}
}

// serverGone tells a server that starts up, shuts down or crashes: it says so, and
// serves nobody.
func serverGone(err *pgconn.PgError) bool {
	return err.SeverityUnlocalized == "FATAL" || err.SeverityUnlocalized == "PANIC"
}

// Unanswered tells that a query which changes nothing failed because the server
// could not be reached or went away, and not because it refused or the caller
// misread the answer.
func Unanswered(err error) bool {
	pgErr, answered := errors.AsType[*pgconn.PgError](err)
	_, refused := errors.AsType[*pgconn.ConnectError](err)
	_, misread := errors.AsType[pgx.ScanArgError](err)
	return err != nil && !misread && (refused || !answered || serverGone(pgErr))
}

// HasCode tells that the server answered with the SQLSTATE.
func HasCode(err error, code string) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pgErr.Code == code
}
