package etcd

import (
	"context"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// These three are where a rewound revision is noticed (K-7.6, K-10.1): a snapshot
// that is restored without --bump-revision issues tokens that were issued before. Which
// sign catches what, era.go says. meta/floor holds, in decimal, what a fast-forward has
// reached: nothing is granted at or below it.

// guardOpen is asked with the gate and the floor as Open read them (operations 0 and
// 1), and may refuse the store.
func (s *Store) guardOpen(ctx context.Context, got answer) error {
	if s.options.Purpose < Granting {
		return nil
	}
	if err := closed(got.kv(0)); err != nil {
		return err
	}
	if err := aboveFloor(lockstore.Token(got.revision), got.kv(1)); err != nil {
		return err
	}
	return s.enterEra(ctx)
}

// admit is asked before a request that may be granted leaves, and may refuse it. asked
// is what the request's token must be above: hand it to guard.
func (s *Store) admit(ctx context.Context) (asked lockstore.Token, err error) {
	if !s.detector.isCompared() {
		if err := s.compare(ctx); err != nil {
			return 0, err
		}
	}
	return s.detector.shown(), nil
}

// guard is asked of each token that the cluster has just issued, with what admit gave
// and the floor as the granting transaction read it, before anybody is told of the
// token. On an error the grant is given back, and the error is the caller's answer.
func (s *Store) guard(ctx context.Context, asked, token lockstore.Token, floor *mvccpb.KeyValue) error {
	if err := aboveFloor(token, floor); err != nil {
		return err
	}
	return s.clear(ctx, asked, token)
}

func aboveFloor(token lockstore.Token, floor *mvccpb.KeyValue) error {
	if unsafe := aboveMost(token); unsafe != nil {
		return unsafe
	}
	lowest, err := readFloor(floor)
	if err == nil && token > lowest {
		return nil
	}
	return grantsClosed(planHint, "its revision stands at %s, not above the floor %q: it was set back", token, floor.Value)
}

// aboveMost is the refusal of a revision that is no token any more, or nil.
func aboveMost(token lockstore.Token) *lockstore.UnsafeError {
	if token <= lockstore.MaxToken {
		return nil
	}
	return &lockstore.UnsafeError{
		Clause:  "K-1.6",
		Problem: "the cluster's revision has passed 2^53, above which no token is accepted: somebody bumped it there",
		Fix:     "find out what bumped it before anything else; audit verify and restore plan show the evidence",
	}
}
