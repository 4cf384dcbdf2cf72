package lock

import (
	"context"
	"errors"
	"fmt"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// queue is a store that has waiters wait in order, in a queue of its own.
type queue interface {
	Wait(ctx context.Context, params lockstore.WaitParams) (lockstore.Grant, error)
}

// wait waits in the store's own queue, where it has one.
func wait(ctx context.Context, store lockstore.Store, params lockstore.WaitParams) (lockstore.Grant, error) {
	if own, has := store.(queue); has {
		return own.Wait(ctx, params)
	}
	return lockstore.Wait(ctx, store, params)
}

// bare is the session of a grant that hangs on its own lease alone: it bounds
// nothing.
func bare(grant lockstore.Grant) lockstore.Session {
	return lockstore.Session{Sent: grant.Sent, Remaining: grant.TTL}
}

// acquireBare acquires where there are no sessions. A try whose answer was lost has
// nothing to re-enter under, and lapses by itself.
func acquireBare(ctx context.Context, a *app.App, store lockstore.Store, opts acquireOptions) error {
	if !opts.fresh() {
		return app.Lacks(store, "sessions", "leave --session and DLOCKCTL_SESSION out: the lock hangs on its own lease")
	}
	params := lockstore.AcquireParams{Key: opts.key, Owner: opts.owner, TTL: opts.ttl}
	var grant lockstore.Grant
	var err error
	if opts.wait == 0 {
		grant, err = store.Acquire(ctx, params)
	} else {
		grant, err = wait(ctx, store, lockstore.WaitParams{AcquireParams: params, Max: opts.wait, Waiting: tellHolder(a)})
	}
	if _, unknown := errors.AsType[*lockstore.UnknownOutcomeError](err); unknown {
		return app.WithHint(err, fmt.Sprintf("what may have been granted lapses by itself within %s, since nothing re-enters it", opts.ttl))
	}
	if err != nil {
		return err
	}
	view := viewGrant(grant, bare(grant))
	view.Release = command(a, "release", grant.Key, "--token", grant.Token.String())
	columns := grantColumns()
	if grant.LockID != "" {
		columns = append(columns, ui.Column{Title: "LOCK ID", Field: "lock_id"})
	}
	return a.Print(ui.View{Data: view, Columns: columns, Name: "token"})
}

// narrowed refuses to narrow by what the backend's rows do not have.
func narrowed(store lockstore.Store, filter lockstore.Filter) error {
	switch has := store.Capabilities(); {
	case filter.Session != "" && !has.Sessions:
		return app.Lacks(store, "sessions", "leave --session out; --prefix narrows by key")
	case filter.Owner != "" && has.Ownerless:
		return app.Lacks(store, "owners", "leave --owner out; --prefix narrows by key")
	}
	return nil
}
