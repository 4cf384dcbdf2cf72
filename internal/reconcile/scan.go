package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// job is one thing that a worker does.
type job struct {
	name   string
	weight int
	do     func(ctx context.Context)
}

// scan reads everything once, with as many workers as have a connection.
func (r *run) scan(ctx context.Context) {
	jobs := r.jobs()
	r.progress = startProgress(ctx, r.o.Progress, r.started, jobs)
	defer r.progress.stop()
	queue := make(chan job)
	var workers sync.WaitGroup
	// One more than paydb has connections: it reads lockdb meanwhile.
	for range len(r.pay.all) + 1 {
		workers.Go(func() {
			for j := range queue {
				r.progress.begin(j)
				j.do(ctx)
				r.progress.end(j, r.book.rows())
			}
		})
	}
	for _, j := range jobs {
		queue <- j
	}
	close(queue)
	workers.Wait()
}

// jobs are the families in scope, the populations that they are checked over, and
// what a report tells beside them.
func (r *run) jobs() []job {
	var jobs []job
	for _, f := range families(r.o) {
		if !r.book.wants(f) {
			continue
		}
		if r.lock == nil && f.needsLock() {
			r.book.missClasses(cause{subject: lockDB, reason: r.book.lockReason}, f.classes...)
			continue
		}
		if f.sealed && !r.o.Previous.comparable(r.pay.facts) {
			r.leaveOut("it compares transactions with those of the seal, which is not of this life of this database", f.classes...)
			continue
		}
		if !r.lastSeen && len(f.aboveLast) > 0 {
			r.book.missClasses(cause{subject: "last_token", reason: r.lastReason()}, f.aboveLast...)
		}
		if len(r.o.Scope.Accounts) > 0 && len(f.ofNoAccount) > 0 {
			r.leaveOut("it is about what has no payout, and so belongs to no account: run without --account", f.ofNoAccount...)
		}
		jobs = append(jobs, job{name: f.name, weight: max(f.weight, 1), do: func(ctx context.Context) { r.read(ctx, f) }})
	}
	r.skipUnasked()
	for _, p := range populations {
		if p.database == lockDB && r.lock == nil || !r.book.needs(p.name) {
			continue
		}
		jobs = append(jobs, job{name: "count " + p.name, weight: 1, do: func(ctx context.Context) { r.count(ctx, p) }})
	}
	jobs = append(jobs,
		job{name: "scope", weight: 1, do: r.heldCurrencies},
		job{name: "rights", weight: 1, do: r.rights},
		job{name: "pipeline", weight: 1, do: r.readPipeline})
	// The longest first, so that the workers end together, and so that nobody waits for
	// the one connection to lockdb while the walk has it.
	slices.SortStableFunc(jobs, func(a, b job) int { return cmp.Compare(b.weight, a.weight) })
	return jobs
}

func (r *run) lastReason() string {
	if r.book.lastReason != "" {
		return r.book.lastReason
	}
	return r.book.lockReason
}

// skipUnasked says of the classes without a family why they have none.
func (r *run) skipUnasked() {
	has := map[string]bool{CoverageClass: true, historyMovedClass: true}
	for _, f := range families(r.o) {
		for _, id := range f.classes {
			has[id] = true
		}
	}
	for id, c := range r.classes {
		if !has[id] {
			r.leaveOut("it compares with "+string(c.Reads)+", and none was given", id)
		}
	}
}

// leaveOut notes that classes cannot be checked. Of one that was asked for by name
// nothing was found out, and the run is not clean.
func (r *run) leaveOut(reason string, classes ...string) {
	for _, id := range classes {
		if slices.Contains(r.o.Scope.Rules, id) {
			r.book.missClasses(cause{subject: id, reason: id + " was not checked: " + reason}, id)
		} else {
			r.book.skip(reason, id)
		}
	}
}

// read reads one family. What it found before it failed is kept.
func (r *run) read(ctx context.Context, f family) {
	began := time.Now()
	found := &sink{put: func(row Row) error { return r.book.add(f, row) }}
	rd := r.reading()
	if f.reread == byPayout {
		rd.payouts = r.touched
	}
	err := r.lend(ctx, f, rd, found)
	r.book.ran(f, time.Since(began), found)
	if err != nil {
		r.book.missClasses(r.broken(ctx, f.name, err), f.classes...)
	}
}

// lend runs the family on free connections. Who waits for the one to lockdb keeps none to
// paydb from others.
func (r *run) lend(ctx context.Context, f family, rd reading, found *sink) error {
	withPay := func() error {
		if f.reads == ReadsLock {
			return f.run(ctx, rd, found)
		}
		return r.pay.with(ctx, func(tx pgx.Tx) error {
			rd.pay = tx
			return f.run(ctx, rd, found)
		})
	}
	if !f.needsLock() {
		return withPay()
	}
	return r.lock.with(ctx, func(tx pgx.Tx) error {
		rd.lock = tx
		return withPay()
	})
}

// broken says what kept something from being read.
func (r *run) broken(ctx context.Context, name string, err error) cause {
	if ctx.Err() != nil {
		return r.cut(ctx)
	}
	refused, ok := errors.AsType[*pgconn.PgError](err)
	if ok && refused.Code == pgerrcode.QueryCanceled && !time.Now().Before(r.until) {
		return cause{subject: "run", reason: "the run was cut short: " + errTimeLimit.Error()}
	}
	return cause{
		subject: name, reason: fmt.Sprintf("%s was not read: %v", name, err),
		denied: ok && refused.Code == pgerrcode.InsufficientPrivilege,
	}
}

// cut says that the run was ended before its end.
func (r *run) cut(ctx context.Context) cause {
	why := "it was cancelled"
	if errors.Is(context.Cause(ctx), errTimeLimit) {
		why = errTimeLimit.Error()
	}
	return cause{subject: "run", reason: "the run was cut short: " + why}
}

func (r *run) readPipeline(ctx context.Context) {
	err := r.pay.with(ctx, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, pipelineQuery, r.reading().args(nil))
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var p PipelineRow
			var oldest *time.Time
			if err := rows.Scan(&p.State, &p.Currency, &p.Payouts, &p.AmountMinor, &oldest); err != nil {
				return err
			}
			if oldest != nil {
				p.Oldest = oldest.UTC()
			}
			r.pipeline = append(r.pipeline, p)
		}
		return rows.Err()
	})
	if err != nil {
		r.book.miss(r.broken(ctx, "pipeline", err))
	}
}
