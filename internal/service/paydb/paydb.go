package paydb

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/pgtx"
)

//go:embed queries/*.sql
var queryFiles embed.FS

var (
	statusQuery = pgtx.Statement(queryFiles, "status", "point")
	rightsQuery = pgtx.Statement(queryFiles, "rights")
)

// Role is one of the two roles that write paydb (K-4.6).
type Role string

// The roles, each one service's.
const (
	Resource Role = "payapp_resource"
	Rail     Role = "payapp_rail"
)

// point is the row of fence_floor that the role's writes look at (K-4.12).
func (r Role) point() string {
	if r == Rail {
		return "rail"
	}
	return "account"
}

const (
	// openTimeout bounds one try to open paydb, whoever waits for it.
	openTimeout = 15 * time.Second
	// tryAgain is how long a try's refusal answers for the next ones.
	tryAgain = 500 * time.Millisecond
)

// Options configure Open.
type Options struct {
	// Options are those of the database; the purpose is Changing, whatever they say.
	paystore.Options
	// Role is what the login must have the rights of.
	Role Role
	// Log is told when paydb goes and comes. Required.
	Log *slog.Logger
}

// Link is paydb under a service's role, opened as soon as it lets itself be.
type Link struct {
	opts Options
	// reading is held by who reads whole tables.
	reading chan struct{}

	mu sync.Mutex
	db *paystore.DB
	// failed is why the last try failed, and at when.
	failed error
	at     time.Time
	// opening ends with the try under way; nil when there is none.
	opening chan struct{}
	closed  bool
}

// Open connects to paydb and looks at it as paystore.Open does, whose errors it
// returns. One that is down or a standby is no error: the Link is made, and tries again
// when it is asked. A login with too few rights, or with the other service's, is a
// *RoleError.
func Open(ctx context.Context, opts Options) (*Link, error) {
	opts.Purpose = paystore.Changing
	l := &Link{opts: opts, reading: make(chan struct{}, 1)}
	_, err := l.DB(ctx)
	if err != nil && !passing(err) {
		return nil, err
	}
	return l, nil
}

// passing tells that paydb may be another in a moment: it is down, or a standby that
// is about to be promoted.
func passing(err error) bool {
	_, unreachable := errors.AsType[*paystore.UnreachableError](err)
	return unreachable || errors.Is(err, paystore.ErrNotPrimary)
}

// errClosed is asked for by a request that the service's end overtook.
var errClosed = errors.New("the service is ending")

// DB is the open database, or why it is not open. Once open it stays so: its pool
// connects again by itself.
func (l *Link) DB(ctx context.Context) (*paystore.DB, error) {
	for {
		db, opening, err := l.state(ctx)
		if opening == nil {
			return db, err
		}
		select {
		case <-opening:
		case <-ctx.Done():
			return nil, &paystore.UnreachableError{Doing: "open paydb", Err: context.Cause(ctx)}
		}
	}
}

// state is the database, or why there is none, or the try that is to be waited for.
func (l *Link) state(ctx context.Context) (db *paystore.DB, opening <-chan struct{}, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return nil, nil, &paystore.UnreachableError{Doing: "open paydb", Err: errClosed}
	case l.db != nil:
		return l.db, nil, nil
	case l.opening == nil && l.failed != nil && time.Since(l.at) < tryAgain:
		return nil, nil, l.failed
	case l.opening == nil:
		l.opening = make(chan struct{})
		// A caller in a hurry does not decide for the others that paydb is away.
		go l.try(context.WithoutCancel(ctx), l.opening)
	}
	return nil, l.opening, nil
}

// try opens paydb and takes down what came of it.
func (l *Link) try(ctx context.Context, done chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	db, err := l.open(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	defer close(done)
	l.opening = nil
	switch {
	case err != nil && (l.failed == nil || l.failed.Error() != err.Error()):
		l.opts.Log.ErrorContext(ctx, "paydb is not open", slog.String("error", err.Error()))
	case err == nil && l.failed != nil:
		l.opts.Log.InfoContext(ctx, "paydb is open again")
	}
	l.db, l.failed, l.at = db, err, time.Now()
}

func (l *Link) open(ctx context.Context) (*paystore.DB, error) {
	db, err := paystore.Open(ctx, l.opts.Options)
	if err != nil {
		return nil, err
	}
	if err := l.checkRole(ctx, db); err != nil {
		db.Close()
		return nil, err
	}
	return db, nil
}

// Close closes the connections; it waits for those in use.
func (l *Link) Close() {
	l.mu.Lock()
	l.closed = true
	opening := l.opening
	l.mu.Unlock()
	if opening != nil {
		<-opening
	}
	if l.db != nil {
		l.db.Close()
	}
}

// RoleError is returned for a login that cannot do a service's work, or could do the
// other's (K-4.6).
type RoleError struct {
	Login string
	Role  Role
	// Problem says what is wrong.
	Problem string
}

func (e *RoleError) Error() string {
	return fmt.Sprintf("the login %s is not one of %s alone: %s (K-4.6); give this service a login that has %s granted, and neither the other service's role nor the owner's",
		e.Login, e.Role, e.Problem, e.Role)
}

// checkRole refuses a login that is not this service's own.
func (l *Link) checkRole(ctx context.Context, db *paystore.DB) error {
	var login string
	var resource, rail, anyResource, anyRail bool
	err := db.Read(ctx, "look at the rights of the service's login", rightsQuery, nil, func(rows pgx.Rows) error {
		return paystore.ScanRows(rows, func() error { return rows.Scan(&login, &resource, &rail, &anyResource, &anyRail) })
	})
	if err != nil {
		return err
	}
	own, other, what := resource, anyRail, "the rail's marks and attempts"
	if l.opts.Role == Rail {
		own, other, what = rail, anyResource, "accounts, payouts and the ledger"
	}
	switch {
	case other:
		return &RoleError{login, l.opts.Role, "it may write " + what}
	case !own:
		return &RoleError{login, l.opts.Role, "it lacks the rights of that role"}
	}
	return nil
}
