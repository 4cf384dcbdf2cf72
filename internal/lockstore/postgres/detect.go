package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/mark"
	"github.com/dlockctl/dlockctl/internal/pgtx"
)

var (
	detectStandingQuery    = query("detect_standing")
	detectFastForwardQuery = query("detect_fast_forward", "action", "token")
	detectSkipQuery        = query("detect_skip", "numbers")
	detectForgedQuery      = query("detect_forged", "action", "token")
)

const (
	// settling is how long after a server's start a comparison with the mark is
	// repeated: by then whoever outlived the last one has told what it had shown.
	settling = 4 * mark.TellEvery
	// giveBackTimeout bounds the release of a grant that is not shown.
	giveBackTimeout = 5 * time.Second

	comparedKey = "dlockctl.compared"
)

// detector finds a lockdb that was set back where the gate cannot (K-7.6): a plain
// copy keeps identifier and timeline. It compares tokens: at the first grant of
// each connection with the last one issued, and after each grant's commit with
// the highest that was shown before it was asked for.
type detector struct {
	options Options
	// outside knows the highest token shown to anybody, and the mark.
	outside *mark.Teller
	// setBack is the sign that fired. It stays until a fast-forward has reached
	// that token: tokens that others were shown may lie above what this one has seen.
	setBack atomic.Pointer[lockstore.GrantsClosedError]

	// opening guards opened and stop.
	opening sync.Mutex
	opened  bool
	stop    func()
}

func newDetector(opts Options) detector {
	return detector{
		options: opts,
		outside: mark.NewTeller("lockdb", "dlockctl restore fast-forward --accept-missing outside_mark --reason TEXT"),
	}
}

// admit says whether the connection may be asked for a grant, and what its token
// must be above.
func (d *detector) admit(ctx context.Context, conn *pgx.Conn) (asked lockstore.Token, err error) {
	if _, compared := conn.PgConn().CustomData()[comparedKey]; !compared || d.refusal() != nil {
		if err := d.readmit(ctx, conn); err != nil {
			return 0, err
		}
	}
	return d.shown(), nil
}

func (d *detector) refusal() *lockstore.GrantsClosedError {
	if setBack := d.setBack.Load(); setBack != nil {
		return setBack
	}
	return d.outside.Unwritten()
}

func (d *detector) shown() lockstore.Token { return d.outside.Highest() }

func (d *detector) readmit(ctx context.Context, conn *pgx.Conn) error {
	if unwritten := d.outside.Unwritten(); unwritten != nil {
		return unwritten
	}
	last, err := d.compareOrOpen(ctx, conn)
	if err != nil {
		return err
	}
	if setBack := d.setBack.Load(); setBack != nil {
		var reached bool
		err := oneTrip{Conn: conn}.QueryRow(ctx, detectFastForwardQuery, lockstore.ActionFastForwardDone, int64(d.outside.Highest())).Scan(&reached)
		if err != nil {
			return fmt.Errorf("look for a fast-forward of lockdb: %w", err)
		}
		if !reached {
			return setBack //nolint:wrapcheck // it is this package's own
		}
		d.setBack.CompareAndSwap(setBack, nil)
	}
	if err := d.skip(ctx, conn, last); err != nil {
		return err
	}
	conn.PgConn().CustomData()[comparedKey] = true
	return nil
}

func (d *detector) compareOrOpen(ctx context.Context, conn *pgx.Conn) (last lockstore.Token, err error) {
	d.opening.Lock()
	if !d.opened {
		defer d.opening.Unlock()
		last, err = d.open(ctx, conn)
		d.opened = err == nil
		return last, err
	}
	d.opening.Unlock()
	return d.compare(ctx, conn)
}

// compare reads the token issued last, and fires when it is below what was shown.
// What was shown is read first, since both grow meanwhile.
func (d *detector) compare(ctx context.Context, conn *pgx.Conn) (last lockstore.Token, err error) {
	for {
		if err := d.outside.Hear(); err != nil {
			return 0, err
		}
		shown := d.shown()
		var journal lockstore.Token
		var up float64
		err := settled(func() error { return oneTrip{Conn: conn}.QueryRow(ctx, detectStandingQuery).Scan(&last, &journal, &up) })
		if err != nil {
			return 0, fmt.Errorf("read the token last issued by lockdb: %w", err)
		}
		wait := max(settling, d.options.settling) - secondsTo(&up)
		switch {
		case last < shown:
			return last, d.fire(shown, "its last token is %s, and %s was shown already, as %s; it was restored or copied back", last, shown, d.witness(shown))
		case last < journal:
			return last, d.fire(journal, "its last token is %s, and its own journal has token %s; its sequence was set back or not restored", last, journal)
		case d.outside.Mark == nil || wait <= 0:
			return last, nil
		}
		if err := lockstore.Pause(ctx, min(wait, mark.TellEvery)); err != nil {
			return 0, fmt.Errorf("wait for what others tell the outside mark after lockdb's start: %w", err)
		}
	}
}

func (d *detector) witness(shown lockstore.Token) string {
	if d.outside.Mark != nil && shown > d.outside.Mark.Seen() {
		return "the outside mark " + d.outside.Mark.Path() + " says"
	}
	return "this process knows"
}

// clear says whether tokens that were committed may be shown: all above what had
// been shown before they were asked for, and none above the mark's ceiling.
func (d *detector) clear(ctx context.Context, asked, lowest, highest lockstore.Token) error {
	if lowest <= asked {
		return d.fire(asked, "it issued token %s after %s had been shown, as %s; it was restored, copied back or set back", lowest, asked, d.witness(asked))
	}
	if refusal := d.refusal(); refusal != nil {
		return refusal // it fired while this one was under way
	}
	if d.outside.Mark == nil {
		return nil
	}
	return d.outside.Refusal(d.outside.Mark.Cover(ctx, highest))
}

// show notes a token that is committed and cleared, before anybody is shown it.
func (d *detector) show(token lockstore.Token) {
	d.outside.Rise(token)
	if d.outside.Mark != nil {
		d.outside.Mark.Saw(token)
	}
}

// fire closes the store until a fast-forward has passed what was observed, which
// the plan may have no other evidence of. The first sign is the one that is told.
func (d *detector) fire(observed lockstore.Token, format string, args ...any) error {
	d.outside.Rise(observed)
	if setBack := d.setBack.Load(); setBack != nil {
		return setBack //nolint:wrapcheck // it is this package's own
	}
	closed := grantsClosed(fmt.Sprintf("run: dlockctl restore plan --observed %s", observed), format, args...)
	d.setBack.Store(closed)
	return closed
}

func grantsClosed(hint, format string, args ...any) *lockstore.GrantsClosedError {
	return &lockstore.GrantsClosedError{Reason: "lockdb grants no locks: " + fmt.Sprintf(format, args...), Hint: hint}
}

// grant runs a change that grants. The token it returns is what the grant's must
// be above.
func (s *Store) grant(ctx context.Context, doing, key, sql string, args []any, scan func(pgx.Rows) error) (lockstore.Token, error) {
	conn, err := s.acquireConn(ctx, doing)
	if err != nil {
		return 0, err
	}
	defer conn.Release()
	asked, err := s.admit(ctx, conn.Conn(), doing)
	if err != nil {
		return 0, err
	}
	return asked, s.changeOn(ctx, conn.Conn(), doing, key, sql, args, scan)
}

// admit is the detector's, with an error for the caller: nothing was sent yet.
func (s *Store) admit(ctx context.Context, conn *pgx.Conn, doing string) (asked lockstore.Token, err error) {
	asked, err = s.detector.admit(ctx, conn)
	_, closed := errors.AsType[*lockstore.GrantsClosedError](err)
	switch {
	case err == nil || closed:
		return asked, err
	case pgtx.Unanswered(err):
		return 0, &lockstore.UnreachableError{Doing: doing, Err: err}
	default:
		return 0, fmt.Errorf("%s: %w", doing, err)
	}
}

// show notes tokens whose commit has answered, or gives their grants back and
// says why they are shown to nobody.
func (s *Store) show(ctx context.Context, doing string, asked, lowest, highest lockstore.Token, grants func() []lockstore.GrantRef) error {
	err := s.detector.clear(ctx, asked, lowest, highest)
	if err == nil {
		s.detector.show(highest)
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackTimeout)
	defer cancel()
	_, kept := s.ReleaseBatch(ctx, grants())
	closed, isClosed := errors.AsType[*lockstore.GrantsClosedError](err)
	switch {
	case isClosed && kept != nil:
		return &lockstore.GrantsClosedError{Reason: fmt.Sprintf("%s; the grant, which could not be given back, lapses: %v", closed.Reason, kept), Hint: closed.Hint}
	case isClosed:
		return &lockstore.GrantsClosedError{Reason: closed.Reason + "; the grant was given back", Hint: closed.Hint}
	case kept != nil: // the caller went away, and so did the server
		return &lockstore.UnknownOutcomeError{Doing: doing, Err: errors.Join(err, kept)}
	default:
		return fmt.Errorf("%s: %w", doing, err)
	}
}
