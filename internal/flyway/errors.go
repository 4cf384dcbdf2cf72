package flyway

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// ErrStandby is returned by Up, Baseline and Repair on a server in recovery (K-6.3).
var ErrStandby = errors.New("the server is a standby; migrate its primary")

// ErrArgument is wrapped by Open and Baseline for what a caller may not ask.
var ErrArgument = errors.New("invalid argument")

// FileError is a file that Load refuses.
type FileError struct {
	File   string `json:"file"`
	Line   int    `json:"line,omitempty"` // 1-based; 0 when the whole file is meant
	Reason string `json:"reason"`         // what is wrong and what to do
}

func (e *FileError) Error() string {
	if e.Line > 0 {
		return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Reason)
	}
	return fmt.Sprintf("%s: %s", e.File, e.Reason)
}

// HistoryError says that the history and the files do not belong together. Up,
// Baseline and Repair return it before they have changed anything by this step.
type HistoryError struct {
	Table    string    `json:"table"`
	Findings []Finding `json:"findings"`
}

func (e *HistoryError) Error() string {
	texts := make([]string, len(e.Findings))
	for i, f := range e.Findings {
		texts[i] = f.Message
	}
	return fmt.Sprintf("%s refuses: %s", e.Table, strings.Join(texts, "; "))
}

// Hint is the way out of the first finding.
func (e *HistoryError) Hint() string {
	if len(e.Findings) == 0 {
		return ""
	}
	return e.Findings[0].Hint
}

// Holder is a session that holds Flyway's lock.
type Holder struct {
	PID             int32      `json:"pid"`
	ApplicationName string     `json:"application_name"`
	User            string     `json:"user"`
	Since           *time.Time `json:"since"` // start of its transaction, else of its connection; nil when hidden from this role
}

func (h Holder) String() string {
	text := fmt.Sprintf("pid %d", h.PID)
	if h.ApplicationName != "" {
		text += fmt.Sprintf(" (%s)", h.ApplicationName)
	}
	if h.User != "" {
		text += " as " + h.User
	}
	if h.Since != nil {
		text += " since " + h.Since.UTC().Format(time.RFC3339)
	}
	return text
}

// LockError is returned when Flyway's lock stayed in other hands too long.
type LockError struct {
	Key     int64         `json:"key,string"`
	Waited  time.Duration `json:"waited_ns"`
	Holders []Holder      `json:"holders"`
	Err     error         `json:"-"` // why the wait ended early; nil when the time ran out
}

func (e *LockError) Error() string {
	names := make([]string, len(e.Holders))
	for i, h := range e.Holders {
		names[i] = h.String()
	}
	text := fmt.Sprintf("migration lock %d is held by %s; gave up after %s",
		e.Key, strings.Join(names, ", "), e.Waited.Round(100*time.Millisecond))
	if len(names) == 0 {
		text = fmt.Sprintf("migration lock %d was taken again and again by others; gave up after %s",
			e.Key, e.Waited.Round(100*time.Millisecond))
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns the reason why the wait ended early.
func (e *LockError) Unwrap() error { return e.Err }

// Hint says what to do about the holder.
func (e *LockError) Hint() string {
	return "another migration is running; wait for it and try again, or raise --lock-timeout"
}

// MigrationError is a file that PostgreSQL did not accept.
type MigrationError struct {
	Script    string `json:"script"`
	Line      int    `json:"line,omitempty"`
	Column    int    `json:"column,omitempty"`
	Dirty     bool   `json:"dirty"`               // the file ran outside a transaction: a failed row is in the history
	Leftover  string `json:"leftover,omitempty"`  // what a dirty file left behind and how to remove it
	Statement string `json:"statement,omitempty"` // the line of the file that is meant
	Err       error  `json:"-"`
}

func (e *MigrationError) Error() string {
	place := e.Script
	if e.Line > 0 {
		place = fmt.Sprintf("%s:%d", place, e.Line)
		if e.Column > 0 {
			place = fmt.Sprintf("%s:%d", place, e.Column)
		}
	}
	text := fmt.Sprintf("apply %s: %v", place, e.Err)
	if !e.Dirty {
		return text + "; nothing of it was applied"
	}
	text += "; recorded as failed"
	if e.Leftover != "" {
		text += "; " + e.Leftover
	}
	return text
}

// Unwrap returns PostgreSQL's own error, usually a *pgconn.PgError.
func (e *MigrationError) Unwrap() error { return e.Err }

// Hint says how to go on.
func (e *MigrationError) Hint() string {
	if e.Dirty {
		return "remove what it left behind, then run `dlockctl migrate repair` and `dlockctl migrate up`"
	}
	return "the schema is as before; correct the file (it was never applied) and run `dlockctl migrate up` again"
}

// UnknownOutcomeError is returned when a connection was lost around a commit and the
// history could not settle whether the migration was applied.
type UnknownOutcomeError struct {
	Script string `json:"script"`
	Err    error  `json:"-"`
}

func (e *UnknownOutcomeError) Error() string {
	return fmt.Sprintf("outcome of %s is unknown: %v", e.Script, e.Err)
}

// Unwrap returns the connection's error.
func (e *UnknownOutcomeError) Unwrap() error { return e.Err }

// Hint says how to learn the outcome.
func (e *UnknownOutcomeError) Hint() string {
	return "run `dlockctl migrate status` when the database answers again: it says whether the version is there"
}

// PoolerError is returned behind a transaction-pooling proxy, where a migration
// could not keep its lock (K-12.3).
type PoolerError struct {
	First  uint32 `json:"first_backend_pid"`
	Second uint32 `json:"second_backend_pid"`
}

func (e *PoolerError) Error() string {
	return fmt.Sprintf("the connection goes through a transaction pooler (its statements reach backends %d and %d)", e.First, e.Second)
}

// Hint says where to connect instead.
func (e *PoolerError) Hint() string {
	return "give migrate the address of PostgreSQL itself, not of the pooler"
}
