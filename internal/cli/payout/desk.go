package payout

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/paystore/posting"
)

// deskTTL is the lease of an operator's work on a payout: some statements, after
// every question has been asked.
const deskTTL = time.Minute

// desk is an operator's place of work: it holds the account's lock, since nothing
// about a payout is decided without (K-5.3), and its token is the claim.
type desk struct {
	store    lockstore.Store
	db       *paystore.DB
	posting  *posting.Store
	operator string
	account  string
	session  lockstore.SessionID
	ttl      time.Duration
	token    paystore.Token
}

// sitDown acquires the account's lock under a session of its own, both with a lease of
// ttl. The caller must call leave.
func sitDown(ctx context.Context, a *app.App, operator, account string, ttl time.Duration) (*desk, error) {
	db, err := a.Pay(ctx, paystore.Changing)
	if err != nil {
		return nil, err
	}
	store, err := a.LockStore(ctx, app.Granting)
	if err != nil {
		return nil, err
	}
	if has := store.Capabilities(); !has.Sessions || !has.GlobalTokens {
		return nil, app.Lacks(store, "sessions, or no tokens that rise over all keys", "payouts take the backend postgres or etcd")
	}
	session, err := store.CreateSession(ctx, operator, ttl)
	if err != nil {
		return nil, err
	}
	d := &desk{
		store: store, db: db, posting: posting.New(db, posting.Options{}), operator: operator, account: account, session: session.ID, ttl: ttl,
	}
	if err := d.enter(ctx); err != nil {
		d.leave(ctx, a)
		if held, isHeld := errors.AsType[*lockstore.HeldError](err); isHeld {
			return nil, app.WithHint(err, fmt.Sprintf("its holder may be at work on this very payout: wait, or take the lock away with dlockctl revoke %s --token %s --reason TEXT",
				paystore.LockKey(account), held.Token))
		}
		return nil, err
	}
	return d, nil
}

// enter draws a token: the first, or by re-entry a new one, since one grant posts
// one payout (K-4.2).
func (d *desk) enter(ctx context.Context) error {
	grant, err := d.store.Acquire(ctx, lockstore.AcquireParams{Key: paystore.LockKey(d.account), Owner: d.operator, Session: d.session, TTL: d.ttl})
	if err != nil {
		return err
	}
	d.token = paystore.Token(grant.Token)
	return nil
}

// leave gives the lock back; the session's end releases it.
func (d *desk) leave(ctx context.Context, a *app.App) {
	ctx, cancel := app.CleanUp(ctx)
	defer cancel()
	if _, err := d.store.EndSession(ctx, d.session); err != nil {
		a.Warn("the lock %s is not given back: %v", paystore.LockKey(d.account), err)
		a.Hint(fmt.Sprintf("it lapses by itself within %s", d.ttl))
	}
}

// finish settles and posts what else of the account the rail has acknowledged: a
// later token on the account would leave it behind for ever (K-5.2). It returns the
// payouts it posted. What the rail has not answered, and what the gate of a restored
// paydb holds back, waits.
func (d *desk) finish(ctx context.Context, except string) ([]string, error) {
	var posted []string
	var last *paystore.Payout
	for {
		open, err := d.posting.OpenOnAccount(ctx, d.account, except, last, posting.MostListed)
		if err != nil || len(open) == 0 {
			return posted, err
		}
		for _, p := range open {
			done, err := d.finishOne(ctx, p)
			if done {
				posted = append(posted, p.PayoutID)
			}
			if err != nil {
				return posted, err
			}
		}
		last = &open[len(open)-1]
	}
}

// finishOne posts one of them where that can be, and tells whether it has.
func (d *desk) finishOne(ctx context.Context, p paystore.Payout) (bool, error) {
	if p.State == paystore.Claimed {
		return false, nil // it has not been near the rail
	}
	done, err := d.settleAndPost(ctx, p.PayoutID)
	switch {
	case waits(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("finish payout %s of the same account first: %w", p.PayoutID, err)
	case done:
		return true, d.enter(ctx)
	}
	return false, nil
}

// waits tells that a payout cannot be finished yet, which holds up no other (K-5.2).
func waits(err error) bool {
	_, unanswered := errors.AsType[*paystore.EvidenceError](err)
	_, heldBack := errors.AsType[*paystore.GateClosedError](err)
	return unanswered || heldBack
}

// settleAndPost takes the payout over and carries it as far as what is recorded
// leads; it tells whether that is POSTED.
func (d *desk) settleAndPost(ctx context.Context, id string) (bool, error) {
	p, err := d.takeOver(ctx, id)
	if err != nil {
		return false, err
	}
	if p.State != paystore.RailAcked {
		return false, nil
	}
	return true, d.post(ctx, id)
}

// takeOver claims the payout and moves it to where its attempt says it is. An
// attempt that is still on its way leaves it as it is.
func (d *desk) takeOver(ctx context.Context, id string) (paystore.Payout, error) {
	p, err := d.posting.Claim(ctx, id, d.operator, d.token)
	if err != nil || p.State != paystore.RailSubmitted {
		return p, err
	}
	return d.posting.Settle(ctx, id, d.token)
}

// finishAcked posts a payout that the rail has acknowledged, after the others of its
// account.
func (d *desk) finishAcked(ctx context.Context, a *app.App, id string) error {
	others, err := d.finish(ctx, id)
	for _, other := range others {
		a.Note("payout %s of the same account was acknowledged earlier, and is POSTED now", other)
	}
	if err != nil {
		return err
	}
	if _, err := d.posting.Claim(ctx, id, d.operator, d.token); err != nil {
		return err
	}
	return d.post(ctx, id)
}

// post posts, and fails the payout where the account cannot pay any more: money is
// out and nothing is debited, which reconcile reports as C13 (K-5.5).
func (d *desk) post(ctx context.Context, id string) error {
	_, err := d.posting.Post(ctx, id, d.token)
	_, cannotPay := errors.AsType[*paystore.RejectedError](err)
	if !cannotPay {
		return err
	}
	if _, failErr := d.posting.Reject(ctx, id, d.token); failErr != nil {
		return errors.Join(err, failErr)
	}
	return app.WithHint(err, "the rail has paid and the account could not: the payout is FAILED, and dlockctl reconcile reports it as C13")
}
