package executor

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/lease"
	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/service/client"
	"github.com/dlockctl/dlockctl/internal/service/payapi"
	"github.com/dlockctl/dlockctl/internal/telemetry"
)

const (
	// perVisit is how many payouts of one account are worked on before the others
	// have their turn.
	perVisit = 16
	// tidying bounds what is given back at the end.
	tidying = 3 * time.Second
)

// worker works on one account at a time, under a session of its own (K-2.12).
type worker struct {
	*Executor
	session lockstore.Session
}

// work is one worker: it visits accounts until there are no more. stop tells that
// nothing new is to be begun; ctx ends what takes too long after that.
func (e *Executor) work(stop, ctx context.Context, accounts <-chan string) {
	w := &worker{Executor: e}
	for account := range accounts {
		w.visit(stop, ctx, account)
		e.agenda.done(account)
	}
	if w.session.ID != "" {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidying)
		defer cancel()
		_, _ = e.opts.Locks.EndSession(ctx, w.session.ID) // or it lapses
	}
}

// visit works on what an account has, a grant for each payout (K-4.2).
func (w *worker) visit(stop, ctx context.Context, account string) {
	v := &visiting{worker: w, account: account, tried: map[string]bool{}}
	defer func() { w.release(ctx, v.grant) }()
	for range perVisit {
		if stop.Err() != nil {
			return
		}
		if !v.granted(ctx) {
			return
		}
	}
}

// visiting is a visit to one account.
type visiting struct {
	*worker
	account string
	// grant is the last one, the zero value before the first.
	grant lockstore.Grant
	tried map[string]bool
	// ahead is the payout to work on under the next grant, nil when it is not known.
	ahead *payapi.Payout
}

// granted takes the account's lock, or a new token of it, and works on one payout; false
// ends the visit.
func (v *visiting) granted(ctx context.Context) bool {
	ctx, end := v.opts.Trace.Begin(ctx, "payout")
	defer end()
	grant, err := v.acquire(ctx, v.account, v.grant)
	if err != nil {
		v.notGranted(ctx, v.account, err)
		return false
	}
	v.grant = grant
	return v.under(ctx)
}

// under works on one payout under the grant; false ends the visit.
func (v *visiting) under(ctx context.Context) bool {
	held, kept := client.Keep(ctx, v.opts.Locks, client.LeaseParams{Grant: v.grant, Session: v.session, SessionTTL: v.sessionTTL()})
	defer func() {
		kept.Close()
		if v.session.ID != "" { // else it was lost meanwhile, and is not used again
			v.session = kept.Session()
		}
	}()
	if v.ahead == nil && !v.next(held) {
		return false
	}
	payout := *v.ahead
	v.ahead, v.tried[payout.PayoutID] = nil, true
	j := &job{worker: v.worker, lease: kept, payout: payout, token: paystore.Token(v.grant.Token), holder: v.grant.Owner}
	v.metrics.Running.Inc()
	outcome, err := j.run(held)
	v.metrics.Running.Dec()
	if !v.ended(ctx, j, outcome, err) {
		return false
	}
	// Looked for while this grant still holds: without another payout no token is drawn.
	return v.next(held)
}

// next finds the payout to work on: what is begun on the account before what is not
// (K-5.2), each once in a visit, and none that is left alone.
func (v *visiting) next(ctx context.Context) bool {
	choose := func(payouts []payapi.Payout) bool {
		now := time.Now()
		for _, p := range payouts {
			if !v.tried[p.PayoutID] && v.agenda.due(p.PayoutID, now) {
				v.ahead = &p
				return true
			}
		}
		return false
	}
	open, err := v.opts.Payments.Open(ctx, v.account)
	if err == nil && choose(open) {
		return true
	}
	// The first page holds one that was not tried; what is left alone may fill it.
	filter := client.PayoutFilter{AccountID: v.account, States: []paystore.State{paystore.Pending}, OldestFirst: true, Limit: len(v.tried) + 1}
	for more := true; err == nil && more; more = filter.After != "" {
		var pending payapi.PayoutList
		if pending, err = v.opts.Payments.Payouts(ctx, filter); err == nil && choose(pending.Payouts) {
			return true
		}
		filter.After, filter.Limit = pending.Next, pageSize
	}
	if err == nil {
		if len(v.tried) == 0 { // a token was drawn for nothing: what there is rests, or others were faster
			v.agenda.leave(v.account, busyRest, time.Now())
		}
		return false
	}
	v.heard(ctx, PaymentResource, err)
	v.agenda.leave(v.account, longestRest, time.Now())
	return false
}

// ended takes a payout's outcome down; false ends the visit.
func (w *worker) ended(ctx context.Context, j *job, outcome Outcome, err error) bool {
	w.metrics.Payouts.WithLabelValues(string(outcome)).Inc()
	log := w.opts.Log.With(slog.String("payout_id", j.payout.PayoutID), slog.String("account_id", j.payout.AccountID), slog.Int64("token", int64(j.token)),
		slog.String("outcome", string(outcome)), slog.String("state", string(j.payout.State)))
	key := slog.String("key", paystore.LockKey(j.payout.AccountID))
	now := time.Now()
	switch outcome {
	case Posted, Failed:
		w.agenda.welcome(j.payout.PayoutID)
		w.agenda.welcome(j.payout.AccountID)
		log.DebugContext(ctx, "payout")
		return true
	case Moved:
		// It is another's; one that no token of ours will ever claim is not asked for all
		// the time.
		w.agenda.leave(j.payout.PayoutID, longestRest, now)
		w.agenda.welcome(j.payout.AccountID)
		log.DebugContext(ctx, "payout", failed(err))
		return true
	case Undecided:
		w.agenda.leave(j.payout.PayoutID, longestRest, now)
		log.InfoContext(ctx, "payout", failed(err))
		return true
	case Fenced:
		fenced, _ := errors.AsType[*paystore.FencedError](err)
		log.WarnContext(ctx, telemetry.EventFencedOut, key, slog.String("resource", string(fenced.Resource)),
			slog.Int64("presented_token", int64(fenced.Presented)), slog.Int64("stored_token", int64(fenced.Stored)))
	case Lost:
		w.metrics.LeaseLost.Inc()
		if errors.Is(err, lockstore.ErrSessionLost) {
			w.forgetSession()
		}
		log.WarnContext(ctx, telemetry.EventLeaseExpired, key, failed(err))
	case Stopped:
		log.InfoContext(ctx, "payout", failed(err))
	case Broken:
		w.agenda.leave(j.payout.PayoutID, longestRest, now)
		log.ErrorContext(ctx, "payout", failed(err))
	}
	w.agenda.leave(j.payout.AccountID, longestRest, now)
	return false
}

// acquire takes the account's lock, or, when this worker has it, re-enters it for a
// new token. It looks first, for a contended try burns a number (K-2.8).
func (w *worker) acquire(ctx context.Context, account string, last lockstore.Grant) (lockstore.Grant, error) {
	key := paystore.LockKey(account)
	if last.Token == 0 {
		entry, err := w.opts.Locks.Show(ctx, key)
		switch {
		case err == nil && !entry.Expired:
			return lockstore.Grant{}, &lockstore.HeldError{Key: key, Owner: entry.Owner, Token: entry.Token, ExpiresAt: entry.ExpiresAt, Remaining: entry.Remaining}
		case err != nil && !errors.Is(err, lockstore.ErrNotFound):
			return lockstore.Grant{}, err
		}
	}
	if err := w.live(ctx); err != nil {
		return lockstore.Grant{}, err
	}
	params := lockstore.AcquireParams{Key: key, Owner: w.opts.Owner, Session: w.session.ID, TTL: w.opts.TTL}
	grant, err := w.opts.Locks.Acquire(ctx, params)
	if _, unknown := errors.AsType[*lockstore.UnknownOutcomeError](err); unknown && ctx.Err() == nil {
		// The same session re-enters what the first may have been granted (K-2.9).
		grant, err = w.opts.Locks.Acquire(ctx, params)
	}
	w.heard(ctx, LockServer, err)
	if errors.Is(err, lockstore.ErrSessionLost) {
		w.forgetSession()
	}
	return grant, err
}

func (w *worker) sessionTTL() time.Duration { return 2 * w.opts.TTL }

// live sees to a session that outlives the lease to be asked for.
func (w *worker) live(ctx context.Context) error {
	p := lease.Promise{Sent: w.session.Sent, TTL: w.session.Remaining}
	if w.session.ID != "" && p.Left(time.Now()) > w.opts.TTL {
		return nil
	}
	var err error
	if w.session.ID != "" {
		session, beatErr := w.opts.Locks.Heartbeat(ctx, w.session.ID, w.sessionTTL())
		if beatErr == nil {
			w.session = session
			return nil
		}
		if !errors.Is(beatErr, lockstore.ErrSessionLost) {
			return beatErr
		}
		w.forgetSession()
	}
	w.session, err = w.opts.Locks.CreateSession(ctx, w.opts.Owner, w.sessionTTL())
	return err
}

// forgetSession counts a session that lapsed under its worker.
func (w *worker) forgetSession() {
	if w.session.ID != "" {
		w.metrics.SessionLost.Inc()
	}
	w.session = lockstore.Session{}
}

// notGranted leaves an account alone whose lock there is not.
func (w *worker) notGranted(ctx context.Context, account string, err error) {
	w.heard(ctx, LockServer, err)
	if held, isHeld := errors.AsType[*lockstore.HeldError](err); isHeld {
		longest := busyRest
		if held.Remaining > 0 {
			longest = min(longest, max(held.Remaining, leastRest))
		}
		w.agenda.leave(account, longest, time.Now())
		return
	}
	w.agenda.leave(account, longestRest, time.Now())
	if ctx.Err() == nil && !away(err) {
		w.opts.Log.WarnContext(ctx, "no lock", slog.String("account_id", account), failed(err))
	}
}

// release gives the account's lock back, so that others need not wait for its lease to
// lapse. It can only ever delete the worker's own grant (K-2.7).
func (w *worker) release(ctx context.Context, grant lockstore.Grant) {
	if grant.Token == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidying)
	defer cancel()
	if _, err := w.opts.Locks.Release(ctx, grant.Key, grant.Token); err != nil {
		w.opts.Log.DebugContext(ctx, "release", slog.String("key", grant.Key), slog.Int64("token", int64(grant.Token)), failed(err))
	}
}
