package reconcile

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

const (
	// DefaultWorkers is how many connections read paydb where none is said.
	DefaultWorkers = 2
	// DefaultMaxDuration bounds a run, whose snapshots hold vacuum back.
	DefaultMaxDuration = 10 * time.Minute
)

var (
	//go:embed queries/state.sql
	stateQuery string
	//go:embed queries/last_token.sql
	lastTokenQuery string
	//go:embed queries/pipeline.sql
	pipelineQuery string
	//go:embed queries/rights.sql
	rightsQuery string
)

// errTimeLimit ends a run that took longer than Options.MaxDuration.
var errTimeLimit = errors.New("the run's time limit has passed")

// Options say what a run reads, and how.
type Options struct {
	// Pay and Lock are logins of dlock_auditor. Without Lock what needs it is in
	// Missing, and the outcome is not CLEAN.
	Pay, Lock *pgx.ConnConfig
	// Workers is how many connections read paydb at once, DefaultWorkers for 0.
	Workers int
	Scope   Scope
	// MaxDuration ends the run with what was found until then, DefaultMaxDuration
	// for 0.
	MaxDuration time.Duration
	// Previous is an earlier run to compare with, Statement the rail's own list; nil
	// for none.
	Previous  *Previous
	Statement *Statement
	// Seal asks for a seal of what was seen; nil for none.
	Seal *Sealing
	// Progress is told now and then how far the run is, never twice at once; nil for
	// nobody.
	Progress func(Progress)
}

// run is one run under way.
type run struct {
	o       Options
	classes map[string]Class
	id      string
	started time.Time
	until   time.Time

	pay, lock *snapshot // lock is nil where lockdb is not read
	// last is the last token issued, read after both snapshots.
	last     int64
	lastSeen bool

	book     *book
	progress *progress
	pipeline []PipelineRow
	lines    []Timeline
	// touched narrows what is decided payout by payout; nil for all.
	touched []string
}

// Run checks every class of the catalogue that is in scope, and only reads. Its error
// says that nothing could be begun: paydb does not answer, or the scope is none (a
// [*ScopeError]). A run that is cancelled or takes too long returns what it has found,
// and is not complete.
func Run(ctx context.Context, o Options) (Report, error) {
	o, err := o.complete()
	if err != nil {
		return Report{}, err
	}
	r := newRun(o)
	ctx, cancel := context.WithDeadlineCause(ctx, r.until, errTimeLimit)
	defer cancel()
	defer r.close(ctx)
	if err := r.begin(ctx); err != nil {
		return Report{}, err
	}
	r.narrow(ctx)
	r.scan(ctx)
	r.confirm(ctx)
	r.explain(ctx)
	r.lastLook(ctx)
	if ctx.Err() != nil {
		r.book.miss(r.cut(ctx))
	}
	report := r.report()
	r.sealUp(ctx, &report)
	return report, nil
}

func newRun(o Options) *run {
	now := time.Now()
	r := &run{o: o, id: uuid.NewString(), started: now, until: now.Add(o.MaxDuration), classes: map[string]Class{}}
	for _, c := range Catalogue() {
		r.classes[c.ID] = c
	}
	r.book = newBook(r.classes, o)
	return r
}

// begin takes the snapshots in the order of K-8.3: tokens are issued in lockdb before
// paydb sees them, so that the later snapshot of lockdb knows all of paydb's.
func (r *run) begin(ctx context.Context) (err error) {
	if r.pay, err = takeSnapshot(ctx, payDB, r.o.Pay, r.o.Workers, r.until); err != nil {
		return err
	}
	r.pay.readHistory(ctx)
	r.book.note(r.pay.alone)
	r.book.note(r.pay.behind())
	r.book.note(r.o.Statement.span())
	r.book.setCount("databases", 1)
	if r.o.Lock == nil {
		r.book.noLock("it was not given")
		return nil
	}
	if r.lock, err = takeSnapshot(ctx, lockDB, r.o.Lock, 1, r.until); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("read lockdb: %w", context.Cause(ctx))
		}
		r.book.noLock(err.Error())
		return nil
	}
	r.book.setCount("databases", 2)
	r.lock.readHistory(ctx)
	r.readLast(ctx)
	return nil
}

// readLast asks for the last token issued, which is no part of the snapshot.
func (r *run) readLast(ctx context.Context) {
	if r.lock.facts.Standby {
		r.book.noLast("lockdb is read from a standby, and the last token issued is known on the primary only")
		return
	}
	var last int64
	err := r.lock.with(ctx, func(tx pgx.Tx) error { return tx.QueryRow(ctx, lastTokenQuery).Scan(&last) })
	switch {
	case err == nil:
		r.last, r.lastSeen = last, true
	case ctx.Err() == nil:
		r.book.noLast("read the last token issued: " + err.Error())
	}
}

// explain names who is behind what was found (K-8.2), after the last look at it.
func (r *run) explain(ctx context.Context) {
	findings := r.book.all()
	why := "the run was cut short before it could be attributed"
	if ctx.Err() == nil {
		why = "no token explains it"
		err := r.withBoth(ctx, func(rd reading) error { return attribute(ctx, rd, findings) })
		if err == nil {
			r.lines, err = r.timelines(ctx, findings)
		}
		if err != nil {
			missing := r.broken(ctx, "attribution", err)
			why = missing.reason
			r.book.miss(missing)
		}
	}
	for i := range findings {
		if findings[i].Attribution.Confidence == "" {
			findings[i].Attribution = Attribution{Confidence: None, Why: why}
		}
	}
}

// withBoth lends a connection to each snapshot.
func (r *run) withBoth(ctx context.Context, do func(reading) error) error {
	rd := r.reading()
	return r.pay.with(ctx, func(tx pgx.Tx) error {
		rd.pay = tx
		if r.lock == nil {
			return do(rd)
		}
		return r.lock.with(ctx, func(tx pgx.Tx) error {
			rd.lock = tx
			return do(rd)
		})
	})
}

// reading is the run's scope, without connections.
func (r *run) reading() reading {
	return reading{
		accounts: r.o.Scope.Accounts, currencies: r.o.Scope.Currencies,
		lastToken: r.last, lastKnown: r.lastSeen,
	}
}

func (r *run) close(ctx context.Context) {
	r.pay.close(ctx)
	r.lock.close(ctx)
}
