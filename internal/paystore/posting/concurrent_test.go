package posting_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/paystore/posting"
	"github.com/dlockctl/dlockctl/internal/pgtest"
)

// 16 clients without a lock between them, on three accounts, each with a token that
// is the highest for a moment: they create, take over what they find, ask the rail,
// post, reject and give back. Nothing deadlocks, everything balances, and what one
// holder finishes in the end is all there is.
//
// Clauses: K-4.1, K-4.2, K-4.3, K-4.7, K-5.1, K-5.2
// Mutation: lock the account before the payout in Post, for every other token.
func TestManyClients(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	accounts := []string{payer, other, dollars}
	const clients, rounds = 16, 25
	group, ctx := errgroup.WithContext(t.Context())
	for i := range clients {
		c := client{bundle: b, random: rand.New(rand.NewPCG(7201, uint64(i))), name: fmt.Sprintf("client %d", i)}
		group.Go(func() error {
			for range rounds {
				if err := c.round(ctx, accounts[c.random.IntN(len(accounts))]); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	for _, account := range accounts {
		b.finish(t, account)
	}
	b.balanced(t)
	// A server process tells what it counted when it ends; the store tries again what a
	// deadlock ended, and says nothing of it.
	b.db.Close()
	pgtest.Eventually(t, "the clients' server processes end", func(ctx context.Context) (ended bool, err error) {
		err = b.super.QueryRow(ctx, `SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND usename = 't_resource')`).Scan(&ended)
		return ended, err
	})
	var deadlocks, posted, failed, open int
	err := b.super.QueryRow(t.Context(), `SELECT (SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()),
		count(*) FILTER (WHERE state = 'POSTED'), count(*) FILTER (WHERE state = 'FAILED'),
		count(*) FILTER (WHERE state NOT IN ('POSTED', 'FAILED', 'PENDING')) FROM payout`).Scan(&deadlocks, &posted, &failed, &open)
	if err != nil || deadlocks != 0 || open != 0 || posted < clients*rounds/5 || failed == 0 {
		t.Errorf("%d posted, %d failed, %d open, %d deadlocks, %v", posted, failed, open, deadlocks, err)
	}
	var under int
	err = b.super.QueryRow(t.Context(), `SELECT count(*) FROM (SELECT FROM ledger_entry WHERE direction = 'DEBIT' GROUP BY account_id, fence HAVING count(*) > 1) x`).Scan(&under)
	if err != nil || under != 0 {
		t.Errorf("%d tokens posted more than one payout of an account, %v", under, err)
	}
}

type client struct {
	bundle

	random *rand.Rand
	name   string
}

// round is one grant: a payout of its own, or somebody else's, as far as it gets.
func (c client) round(ctx context.Context, account string) error {
	a, err := c.db.Account(ctx, account)
	if err != nil {
		return err
	}
	p, _, err := c.Create(ctx, params(a, paystore.Minor(1+c.random.IntN(50))))
	if err != nil {
		return err
	}
	id := p.PayoutID
	token := c.token()
	open, err := c.OpenOnAccount(ctx, account, id, nil, posting.MostListed)
	if err != nil {
		return err
	}
	if len(open) > 0 && c.random.IntN(2) == 0 {
		id = open[c.random.IntN(len(open))].PayoutID
	}
	err = c.drive(ctx, id, token, c.random.IntN(6))
	var fenced *paystore.FencedError
	var state *paystore.StateError
	var held *paystore.ClaimedError
	var evidence *paystore.EvidenceError
	if errors.As(err, &fenced) || errors.As(err, &state) || errors.As(err, &held) || errors.As(err, &evidence) {
		return nil // another was faster, or the rail took another's token
	}
	return err
}

// drive takes a payout as far as it goes; how chooses where it ends early.
func (c client) drive(ctx context.Context, id string, token paystore.Token, how int) error {
	p, err := c.Claim(ctx, id, c.name, token)
	if err != nil {
		return err
	}
	if p.State == paystore.Claimed {
		if how == 0 {
			_, err := c.Release(ctx, id, token)
			return err
		}
		if how == 1 {
			_, err := c.Reject(ctx, id, token)
			return err
		}
		if err := c.CheckFunds(ctx, id, token); err != nil {
			return err
		}
		if p, err = c.Submit(ctx, id, token); err != nil {
			return err
		}
	}
	if how == 2 {
		return nil // it died here
	}
	if p.State == paystore.RailSubmitted {
		outcome := paystore.OutcomeAcked
		if how == 3 {
			outcome = paystore.OutcomeTimeout
		}
		if _, err := c.tryAttempt(ctx, id, token, outcome); err != nil && !hasGuard(err) {
			return err
		}
		if p, err = c.Settle(ctx, id, token); err != nil {
			return err
		}
	}
	if p.State == paystore.RailAmbiguous {
		if _, err = c.Resolve(ctx, resolution(id, token, paystore.VerdictPaid)); err != nil {
			return err
		}
	}
	_, err = c.Post(ctx, id, token)
	return err
}

// finish is the account's last holder: a token for each payout that is open.
func (b bundle) finish(t *testing.T, account string) {
	t.Helper()
	last := client{bundle: b, name: "last"}
	for {
		open, err := b.OpenOnAccount(t.Context(), account, "", nil, posting.MostListed)
		if err != nil {
			t.Fatal(err)
		}
		if len(open) == 0 {
			return
		}
		if err := last.drive(t.Context(), open[0].PayoutID, b.token(), 5); err != nil {
			t.Fatalf("finish %+v: %v", open[0], err)
		}
	}
}
