package posting_test

import (
	"context"
	"errors"
	"testing"

	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/paystore/posting"
	"github.com/dlockctl/dlockctl/internal/pgtest"
)

// verb is one that changes paydb, repeated after its answer was lost.
type verb struct {
	name string
	// from is where the payout stands before, to where it ends.
	from paystore.State
	do   func(ctx context.Context, s *posting.Store, id string, token paystore.Token) error
	to   paystore.State
	// looks counts the reads before the change.
	looks int
}

func verbs(create posting.CreateParams) []verb {
	return []verb{
		{"create", paystore.Pending, func(ctx context.Context, s *posting.Store, _ string, _ paystore.Token) error {
			_, _, err := s.Create(ctx, create)
			return err
		}, paystore.Pending, 0},
		{"claim", paystore.Pending, func(ctx context.Context, s *posting.Store, id string, token paystore.Token) error {
			_, err := s.Claim(ctx, id, "holder", token)
			return err
		}, paystore.Claimed, 1},
		{"release", paystore.Claimed, func(ctx context.Context, s *posting.Store, id string, token paystore.Token) error {
			_, err := s.Release(ctx, id, token)
			return err
		}, paystore.Pending, 0},
		{"submit", paystore.Claimed, func(ctx context.Context, s *posting.Store, id string, token paystore.Token) error {
			_, err := s.Submit(ctx, id, token)
			return err
		}, paystore.RailSubmitted, 0},
		{"reject", paystore.Claimed, func(ctx context.Context, s *posting.Store, id string, token paystore.Token) error {
			_, err := s.Reject(ctx, id, token)
			return err
		}, paystore.Failed, 1},
		{"give up", paystore.Claimed, func(ctx context.Context, s *posting.Store, id string, token paystore.Token) error {
			_, err := s.GiveUp(ctx, id, token, "erin", "test")
			return err
		}, paystore.Failed, 0},
		{"resolve", paystore.RailAmbiguous, func(ctx context.Context, s *posting.Store, id string, token paystore.Token) error {
			_, err := s.Resolve(ctx, resolution(id, token, paystore.VerdictPaid))
			return err
		}, paystore.RailAcked, 1},
		{"post", paystore.RailAcked, func(ctx context.Context, s *posting.Store, id string, token paystore.Token) error {
			_, err := s.Post(ctx, id, token)
			return err
		}, paystore.Posted, 0},
		{"raise fence", paystore.Pending, func(ctx context.Context, s *posting.Store, _ string, token paystore.Token) error {
			_, _, err := s.RaiseFence(ctx, payer, token, "erin", "revoked")
			return err
		}, paystore.Pending, 0},
	}
}

// A COMMIT whose answer is lost is unknown, never failed: before it nothing was done,
// after it everything was. The same call with the same token is success either way,
// and what is there is there once.
//
// Clauses: K-4.3, K-2.9, K-5.4
// Mutation: let pgtx.FateOf take an error that is no PgError for NotDone, or drop the
// POSTED case of post and one's own case of unmoved.
func TestLostCommit(t *testing.T) {
	t.Parallel()
	for name, pooled := range map[string]bool{"direct": false, "pooled": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, 16)
			cutter := pgtest.NewCutter(t, b.dbs.Pay.Server)
			// One connection, and its statements described, so that what is cut is the commit.
			cut := posting.New(open(t, cutter.Config(b.dbs.Pay.Config(t, "t_resource")), paystore.Options{MaxConns: 1, Pooled: pooled}), posting.Options{})
			for _, where := range []pgtest.Cut{pgtest.BeforeCommit, pgtest.AfterCommit} {
				for i, v := range verbs(params(b.account(t, payer), 100)) {
					token := b.token()
					warm := b.at(t, payer, v.from, token)
					if err := verbs(params(b.account(t, payer), 100))[i].do(t.Context(), cut, warm, token); err != nil {
						t.Fatalf("%s: %v", v.name, err)
					}
					token = b.token()
					id := b.at(t, payer, v.from, token)
					cuts := cutter.Cuts()
					cutter.CutAfter(v.looks, where)
					err := v.do(t.Context(), cut, id, token)
					unknown, ok := errors.AsType[*paystore.UnknownOutcomeError](err)
					if !ok || unknown.Doing == "" || cutter.Cuts() != cuts+1 {
						t.Errorf("%s, cut at %d: %v after %d cuts, want unknown", v.name, where, err, cutter.Cuts()-cuts)
					}
					if err := v.do(t.Context(), cut, id, token); err != nil {
						t.Errorf("%s again: %v", v.name, err)
					}
					if p := b.payout(t, id); p.State != v.to || len(p.Legs) > 2 || len(p.Resolutions) > 1 {
						t.Errorf("%s left %+v", v.name, p)
					}
				}
			}
			b.balanced(t)
			var keys, ids int
			if err := b.super.QueryRow(t.Context(), `SELECT count(DISTINCT (account_id, raised_to)), count(*) FROM account_fence_raise`).Scan(&keys, &ids); err != nil || keys != ids {
				t.Errorf("%d raises to %d tokens, %v", ids, keys, err)
			}
		})
	}
}
