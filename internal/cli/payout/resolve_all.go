package payout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/paystore/posting"
	"github.com/dlockctl/dlockctl/internal/paystore/rail/httprail"
	"github.com/dlockctl/dlockctl/internal/paystore/resolver"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// silences is how often in a row the rail may fail to answer before --all gives up:
// each takes as long as the rail's deadline.
const silences = 3

func runResolveAll(ctx context.Context, a *app.App, client *httprail.Client, opts resolveOptions) error {
	purpose := paystore.Reading
	if !opts.dryRun {
		if err := a.Protect(); err != nil {
			return err
		}
		purpose = paystore.Changing
	}
	db, err := a.Pay(ctx, purpose)
	if err != nil {
		return err
	}
	pages := pages{posting: posting.New(db, posting.Options{}), deadline: opts.deadline}
	first, err := pages.next(ctx)
	if err != nil {
		return err
	}
	if opts.dryRun || first.Total == 0 {
		return pages.print(ctx, a, first, client.Host())
	}
	if !opts.yes {
		question := fmt.Sprintf("Ask the rail at %s about %s, and finish what it has settled?", client.Host(), tally(first))
		if err := a.Confirm(ctx, question, "--yes"); err != nil {
			return err
		}
	}
	c, err := openCounter(ctx, a, client, opts)
	if err != nil {
		return err
	}
	defer c.proxy.Close()
	run := round{counter: c, app: a, total: int(first.Total), began: a.Streams.Now()}
	stopped := run.all(ctx, first.Payouts, &pages)
	return run.report(ctx, stopped)
}

// pages are what the rail has to settle, page by page.
type pages struct {
	posting  *posting.Store
	deadline time.Duration
	last     *posting.Unsettled
}

// next is the next page, an empty one at the end.
func (p *pages) next(ctx context.Context) (posting.UnsettledPage, error) {
	page, err := p.posting.Unsettled(ctx, p.deadline, p.last, posting.MostListed)
	if n := len(page.Payouts); n > 0 {
		p.last = &page.Payouts[n-1]
	}
	return page, err
}

// tally says how many payouts there are, and how many of them the gate holds back.
func tally(page posting.UnsettledPage) string {
	return fmt.Sprintf("%d payouts (%d of them held back by paydb's gate)", page.Total, page.HeldBack)
}

func (p *pages) print(ctx context.Context, a *app.App, first posting.UnsettledPage, host string) error {
	views := []payoutView{}
	for page := first; len(page.Payouts) > 0; {
		for _, u := range page.Payouts {
			views = append(views, view(u.Payout))
		}
		var err error
		if page, err = p.next(ctx); err != nil {
			return err
		}
	}
	if err := a.Print(ui.View{Data: views, Columns: columns(), Name: "payout_id", Empty: "no payout is held back, and none has an unknown outcome"}); err != nil {
		return err
	}
	if first.Total > 0 {
		a.Aside("the rail at %s would be asked about %s; nothing is sent to be paid", host, tally(first))
	}
	return nil
}

// round is one run over many payouts.
type round struct {
	*counter

	app    *app.App
	total  int
	views  []settledView
	began  time.Time
	silent int
	// progress is nil where stderr is not for people.
	progress *ui.Progress
}

// all settles account by account, each under its lock. It returns what stopped it;
// a payout that could not be settled stops nothing.
func (r *round) all(ctx context.Context, unsettled []posting.Unsettled, more *pages) error {
	if cfg, err := r.app.Config(); err == nil && r.app.ForPeople() {
		if color, err := ui.ParseColorMode(cfg.Color); err == nil {
			r.progress = r.app.Streams.NewProgress("resolve", color)
			defer r.progress.End()
		}
	}
	for len(unsettled) > 0 {
		account := unsettled[0].AccountID
		end := slices.IndexFunc(unsettled, func(u posting.Unsettled) bool { return u.AccountID != account })
		if end < 0 {
			end = len(unsettled)
		}
		if err := r.account(ctx, account, unsettled[:end]); err != nil {
			return err
		}
		if unsettled = unsettled[end:]; len(unsettled) > 0 {
			continue
		}
		page, err := more.next(ctx)
		if err != nil {
			return err
		}
		unsettled = page.Payouts
	}
	return nil
}

func (r *round) account(ctx context.Context, account string, payouts []posting.Unsettled) error {
	desk, err := sitDown(ctx, r.app, r.opts.operator, account, r.lease())
	if err != nil {
		for _, p := range payouts {
			r.add(settledView{payoutView: view(p.Payout), Fate: fateLeft, Why: err.Error()})
		}
		return stops(ctx, err)
	}
	defer desk.leave(ctx, r.app)
	for i, p := range payouts {
		if i > 0 {
			// One grant marks and posts one payout (K-4.2).
			if err := desk.enter(ctx); err != nil {
				return err
			}
		}
		v, err := r.settle(ctx, r.app, desk, p.Payout)
		if state, final := errors.AsType[*paystore.StateError](err); final && state.Have.Final() {
			v.Fate, v.Why = string(state.Have), "" // somebody finished it meanwhile
			v.Fate = strings.ToLower(v.Fate)
		}
		r.add(v)
		if err := r.heard(ctx, err); err != nil {
			return err
		}
	}
	return nil
}

// heard decides whether an error ends the run.
func (r *round) heard(ctx context.Context, err error) error {
	if _, unanswered := errors.AsType[*httprail.Error](err); unanswered {
		if r.silent++; r.silent >= silences {
			return err
		}
		return stops(ctx, nil)
	}
	r.silent = 0
	return stops(ctx, err)
}

// stops is the error when it concerns every payout, else nil.
func stops(ctx context.Context, err error) error {
	_, wrong := errors.AsType[*resolver.WrongRailError](err)
	_, noPay := errors.AsType[*paystore.UnreachableError](err)
	_, noLock := errors.AsType[*lockstore.UnreachableError](err)
	_, closed := errors.AsType[*lockstore.GrantsClosedError](err)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case wrong, noPay, noLock, closed:
		return err
	default:
		return nil
	}
}

func (r *round) add(v settledView) {
	r.views = append(r.views, v)
	if r.progress == nil {
		return
	}
	done, elapsed := len(r.views), r.app.Streams.Now().Sub(r.began)
	r.progress.Show(ui.Step{
		Done: done, Total: max(r.total, done), What: r.summary(), Elapsed: elapsed, Left: elapsed / time.Duration(done) * time.Duration(max(r.total-done, 0)),
	})
}

// summary counts the fates.
func (r *round) summary() string {
	counts := map[string]int{}
	for _, v := range r.views {
		counts[v.Fate]++
	}
	var parts []string
	for _, fate := range []string{fatePosted, string(resolver.Acked), fateFailed, "abandoned", string(resolver.Free), fateLeft, string(resolver.Contradicted)} {
		if counts[fate] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[fate], fate))
		}
	}
	return strings.Join(parts, ", ")
}

// report prints what was done, and what is left to do.
func (r *round) report(ctx context.Context, stopped error) error {
	if err := r.app.Print(ui.View{Data: r.views, Columns: settledColumns(), Name: "payout_id"}); err != nil {
		return err
	}
	r.app.Aside("%d of %d payouts asked about: %s", len(r.views), r.total, r.summary())
	left := 0
	for _, v := range r.views {
		if v.left() {
			left++
		}
	}
	if stopped != nil {
		stopped = railFailure(stopped)
		failure, ok := errors.AsType[*app.Failure](stopped)
		if ok && left < len(r.views) { // part of it is done
			failure.Exit = app.Unknown
		}
		return stopped
	}
	if left > 0 {
		return &app.Failure{
			Exit: app.Unknown, Code: "rail_unsettled", Message: fmt.Sprintf("%d of %d payouts are not settled", left, r.total),
			Hint:    "each line says why; run it again, it takes up what is left",
			Details: map[string]any{"settled": len(r.views) - left, "unsettled": left},
		}
	}
	return r.next(ctx)
}

// next says what a restored paydb still needs.
func (r *round) next(ctx context.Context) error {
	again, err := r.posting.Unsettled(ctx, r.opts.deadline, nil, 1)
	if err != nil {
		return err
	}
	if again.Total > 0 {
		r.app.Aside("meanwhile there are %s; run it again", tally(again))
		return nil
	}
	r.app.Aside("no payout is held back any more; after a restore of paydb, open its gate: dlockctl restore paydb --reason TEXT")
	return nil
}
