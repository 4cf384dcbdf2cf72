package app

import (
	"errors"
	"slices"
	"strings"
	"syscall"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/dlockctl/dlockctl/internal/config"
	"github.com/dlockctl/dlockctl/internal/devenv"
	"github.com/dlockctl/dlockctl/internal/devenv/cluster"
	"github.com/dlockctl/dlockctl/internal/flyway"
	"github.com/dlockctl/dlockctl/internal/instance"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// Problem is an error as scripts read it: the JSON form on stderr.
type Problem struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
	Exit    Exit   `json:"exit_code"`
	Details any    `json:"details,omitempty"`

	help string
}

// rule is a row of the error table.
type rule struct {
	// name is the sentinel's or the type's own name; a test compares the names
	// that the stores export with those here.
	name string
	exit Exit
	code string
	// match returns the hint and the details of an error that the row is about.
	match func(error) (hint string, details any, ok bool)
}

// rules is the error table: the first row that matches decides. What is
// unknown comes first, for an error that wraps it must not say "failed"; what
// was stopped comes next. What helps where nobody answers depends on whether the
// databases are the embedded ones.
func rules(embedded bool) []rule {
	unreachableHint := unreachableHint(embedded)
	return slices.Concat(unfinishedRules(), stopRules(), serviceRules(), etcdRightRules(), lockRules(unreachableHint), payRules(unreachableHint), restoreRules(unreachableHint), migrationRules(), etcdRules(), []rule{
		typed("VersionError", Refused, "server_too_old", func(*instance.VersionError) (string, any) {
			return "upgrade the server, or give the address of a newer one", nil
		}),
		typed("EnvironmentError", Refused, "wrong_environment", func(e *instance.EnvironmentError) (string, any) {
			return "the profile and the address do not belong together: correct one of them",
				map[string]string{"database": e.Database, "marked": e.Marked, "configured": e.Configured}
		}),
		sentinel("ErrNoProfile", config.ErrNoProfile, Usage, "no_profile", ""),
		typed("SetupError", Usage, "usage", func(*devenv.SetupError) (string, any) { return "", nil }),
		typed("NotMadeError", Refused, "not_made_by_dev", func(*devenv.NotMadeError) (string, any) { return "", nil }),
		typed("NotUpError", Usage, "no_database", func(*devenv.NotUpError) (string, any) { return "run: dlockctl dev up", nil }),
		sentinel("ErrPortTaken", cluster.ErrPortTaken, Refused, "port_taken", "run dlockctl dev up again: it chooses another"),
		sentinel("ErrDiskFull", cluster.ErrDiskFull, Unexpected, "disk_full", ""),
		typed("ConnectError", Unreachable, "unreachable", func(*pgconn.ConnectError) (string, any) { return unreachableHint, nil }),
		typedIf("PgError", Refused, "permission_denied",
			func(e *pgconn.PgError) bool { return e.Code == pgerrcode.InsufficientPrivilege },
			func(e *pgconn.PgError) (string, any) {
				return "the login role lacks a right: dlockctl migrate roles --print shows the group roles to grant it", pgDetails(e)
			}),
		typed("PgError", Unexpected, "database", func(e *pgconn.PgError) (string, any) { return e.Hint, pgDetails(e) }),
	})
}

func unreachableHint(embedded bool) string {
	if embedded {
		return "are the embedded databases up? dlockctl dev up starts them"
	}
	return "is the server up, and are address, user and password right?"
}

func stopRules() []rule {
	return []rule{
		typed("UnknownOutcomeError", Unknown, "outcome_unknown", func(*lockstore.UnknownOutcomeError) (string, any) {
			return "it may have been done: look with dlockctl lock show before going on; repeating a release is always safe", nil
		}),
		typed("UnknownOutcomeError", Unknown, "outcome_unknown", func(*paystore.UnknownOutcomeError) (string, any) {
			return "it may have been done: look with dlockctl payout show; repeating it with the same token is safe", nil
		}),
		typed("UnknownOutcomeError", Unknown, "outcome_unknown", func(e *flyway.UnknownOutcomeError) (string, any) { return e.Hint(), e }),
		// What a migration left half done matters more than who stopped it.
		typedIf("MigrationError", History, "migration_dirty",
			func(e *flyway.MigrationError) bool { return e.Dirty },
			func(e *flyway.MigrationError) (string, any) { return e.Hint(), e }),
		typedIf("SignalError", Terminated, "terminated",
			func(e *SignalError) bool { return e.Signal != syscall.SIGINT },
			func(*SignalError) (string, any) { return "", nil }),
		typed("SignalError", Interrupted, "interrupted", func(*SignalError) (string, any) { return "", nil }),
		typed("DeadlineError", Unreachable, "deadline", func(*DeadlineError) (string, any) {
			return "the database is slow or unreachable; --timeout gives it longer", nil
		}),
	}
}

// lockRules are the rows of the lock store's errors.
func lockRules(unreachableHint string) []rule {
	return []rule{
		// It wraps what the last try was refused for, so it comes before that.
		typed("WaitTimeoutError", Held, "wait_timeout", func(e *lockstore.WaitTimeoutError) (string, any) {
			details := waited{Key: e.Key, WaitedMS: e.Waited.Milliseconds()}
			if held, ok := errors.AsType[*lockstore.HeldError](e.Last); ok && held.Token != 0 {
				_, by := heldHint(held)
				details.HeldBy = by
			}
			return "wait longer, or look who holds it with dlockctl lock list", details
		}),
		typed("HeldError", Held, "held", heldHint),
		typed("BlockedError", Held, "blocked", func(e *lockstore.BlockedError) (string, any) {
			return "an open transaction keeps the key; look it up in pg_stat_activity and end it", map[string]any{"key": e.Key, "pids": e.PIDs}
		}),
		sentinel("ErrSessionLost", lockstore.ErrSessionLost, Lost, "session_lost",
			"every lock under the session is void: stop that work and acquire again under a new session"),
		sentinel("ErrLockLost", lockstore.ErrLockLost, Lost, "lock_lost",
			"stop the work this lock protects, then acquire again for a new token"),
		typed("GrantsClosedError", Refused, "grants_closed", func(e *lockstore.GrantsClosedError) (string, any) { return e.Hint, nil }),
		sentinel("ErrNotPrimary", lockstore.ErrNotPrimary, Refused, "not_primary", "give the address of the primary"),
		sentinel("ErrSameInstance", lockstore.ErrSameInstance, Refused, "same_instance",
			"put them on two instances; on a laptop --allow-same-instance goes on all the same"),
		typed("UnsafeError", Refused, "unsafe_database", func(e *lockstore.UnsafeError) (string, any) {
			return e.Fix, map[string]string{"clause": e.Clause}
		}),
		typedIf("SchemaError", Refused, "wrong_database",
			func(e *lockstore.SchemaError) bool { return e.IsPaydb },
			func(*lockstore.SchemaError) (string, any) {
				return "exchange the two addresses: lock.dsn and pay.dsn", nil
			}),
		typed("SchemaError", Refused, "schema_version", func(e *lockstore.SchemaError) (string, any) {
			if e.Have > e.Max {
				return "use a newer dlockctl", schemaDetails(e)
			}
			return "run dlockctl migrate up --target all", schemaDetails(e)
		}),
		sentinel("ErrNotFound", lockstore.ErrNotFound, NotFound, "not_found", ""),
		typed("CountMovedError", Refused, "count_moved", func(e *lockstore.CountMovedError) (string, any) {
			return "look again, then give the new number", map[string]int{"expected": e.Expected, "found": e.Found}
		}),
		sentinel("ErrUnsupported", lockstore.ErrUnsupported, Usage, "unsupported", ""),
		sentinel("ErrInvalid", lockstore.ErrInvalid, Usage, "invalid_argument", ""),
		typed("UnreachableError", Unreachable, "unreachable", func(*lockstore.UnreachableError) (string, any) {
			return unreachableHint, nil
		}),
	}
}

func migrationRules() []rule {
	return []rule{
		typed("HistoryError", History, "history", func(e *flyway.HistoryError) (string, any) { return e.Hint(), e }),
		typed("LockError", Held, "migration_locked", func(e *flyway.LockError) (string, any) { return e.Hint(), e }),
		typed("MigrationError", Unexpected, "migration_failed", func(e *flyway.MigrationError) (string, any) { return e.Hint(), e }),
		typed("PoolerError", Refused, "pooler", func(e *flyway.PoolerError) (string, any) { return e.Hint(), e }),
		typed("FileError", Usage, "migration_file", func(e *flyway.FileError) (string, any) { return "", e }),
		sentinel("ErrArgument", flyway.ErrArgument, Usage, "invalid_argument", ""),
		sentinel("ErrStandby", flyway.ErrStandby, Refused, "not_primary", "give the address of the primary"),
	}
}

func sentinel(name string, target error, exit Exit, code, hint string) rule {
	return rule{name, exit, code, func(err error) (string, any, bool) { return hint, nil, errors.Is(err, target) }}
}

func typed[E error](name string, exit Exit, code string, say func(E) (string, any)) rule {
	return typedIf(name, exit, code, func(E) bool { return true }, say)
}

func typedIf[E error](name string, exit Exit, code string, when func(E) bool, say func(E) (string, any)) rule {
	return rule{name, exit, code, func(err error) (string, any, bool) {
		var e E
		if !errors.As(err, &e) || !when(e) {
			return "", nil, false
		}
		hint, details := say(e)
		return hint, details, true
	}}
}

type waited struct {
	Key      string `json:"key"`
	WaitedMS int64  `json:"waited_ms"`
	HeldBy   any    `json:"held_by,omitempty"`
}

type heldBy struct {
	Key string `json:"key"`
	Token
	Owner       string         `json:"owner"`
	ExpiresAt   lockstore.Time `json:"expires_at,omitzero"`
	RemainingMS int64          `json:"remaining_ms"`
}

func heldHint(e *lockstore.HeldError) (string, any) {
	details := heldBy{e.Key, NewToken(e.Token), e.Owner, e.ExpiresAt, e.Remaining.Milliseconds()}
	if e.Remaining <= 0 || e.ExpiresAt.Infinite {
		return "try again when the holder lets go", details
	}
	return "the lease has " + ui.Left(e.Remaining) + ", unless it is renewed; try again then", details
}

func schemaDetails(e *lockstore.SchemaError) any {
	return map[string]any{"have": e.Have, "min": e.Min, "max": e.Max}
}

func pgDetails(e *pgconn.PgError) any {
	return map[string]string{"sqlstate": e.Code}
}

// explain finds what is said about an error: its row, and what was added to it
// on the way.
func explain(err error, embedded bool) Problem {
	problem := look(err, embedded)
	if more, ok := errors.AsType[*hintedError](err); ok {
		// What is known of this very case comes before what is said of its kind.
		problem.Hint = strings.TrimSuffix(more.hint+"; "+problem.Hint, "; ")
	}
	return problem
}

// look finds an error's row. What no row knows is an unexpected error, and a gap
// in the table.
func look(err error, embedded bool) Problem {
	message := oneLine(err)
	var failure *Failure
	if errors.As(err, &failure) {
		return Problem{failure.Code, message, failure.Hint, failure.Exit, failure.Details, failure.Help}
	}
	for _, r := range rules(embedded) {
		if hint, details, ok := r.match(err); ok {
			return Problem{Code: r.code, Message: message, Hint: hint, Exit: r.exit, Details: details}
		}
	}
	problem := Problem{Code: "unexpected", Message: message, Exit: Unexpected}
	var hinted interface{ Hint() string }
	if errors.As(err, &hinted) {
		problem.Hint = hinted.Hint()
	}
	return problem
}

// oneLine joins the lines of an error: one line, whoever wrote it.
func oneLine(err error) string {
	var b strings.Builder
	for line := range strings.Lines(err.Error()) {
		line = strings.TrimSpace(line)
		switch text := b.String(); {
		case line == "" || text == line:
			continue
		case text != "" && strings.HasSuffix(text, ":"):
			b.WriteString(" ")
		case text != "":
			b.WriteString("; ")
		}
		b.WriteString(line)
	}
	return b.String()
}
