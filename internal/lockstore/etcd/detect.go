package etcd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/stats"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/mark"
)

// detector finds a cluster that was set back, by what this process and the outside
// know (K-7.6): at the first grant after each connection that was made, for no restore
// leaves one open, and after each grant by its token.
type detector struct {
	// connections counts those that were made; compared is how many there were when
	// the cluster was compared last. Both begin apart.
	connections atomic.Int64
	compared    atomic.Int64
	// outside knows the highest token shown to anybody, and the mark.
	outside *mark.Teller
	// setBack is the sign that fired. It stays until a fast-forward has reached
	// that token: tokens that others were shown may lie above what this one has seen.
	setBack atomic.Pointer[lockstore.GrantsClosedError]

	// turn is held by who compares; it guards the rest.
	turn   chan struct{}
	over   chan struct{} // closed with the store
	closed sync.Once
	opened bool
	stop   func()
}

func newDetector() *detector {
	d := &detector{
		turn:    make(chan struct{}, 1),
		over:    make(chan struct{}),
		outside: mark.NewTeller("the etcd cluster", "dlockctl restore fast-forward --backend etcd --accept-missing outside_mark --reason TEXT"),
	}
	d.compared.Store(-1)
	return d
}

// A detector hears of the client's connections.
var _ stats.Handler = (*detector)(nil)

// HandleConn counts the connections that are made.
func (d *detector) HandleConn(_ context.Context, event stats.ConnStats) {
	if _, begins := event.(*stats.ConnBegin); begins {
		d.connections.Add(1)
	}
}

// TagConn, TagRPC and HandleRPC do nothing.
func (d *detector) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// TagRPC does nothing.
func (d *detector) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC does nothing.
func (d *detector) HandleRPC(context.Context, stats.RPCStats) {}

func (d *detector) refusal() *lockstore.GrantsClosedError {
	if setBack := d.setBack.Load(); setBack != nil {
		return setBack
	}
	return d.outside.Unwritten()
}

func (d *detector) shown() lockstore.Token { return d.outside.Highest() }

// isCompared tells that no connection was made since the cluster was compared, and no
// sign has fired.
func (d *detector) isCompared() bool {
	return d.compared.Load() == d.connections.Load() && d.refusal() == nil
}

// fire closes the store until a fast-forward has passed what was observed, which
// the plan may have no other evidence of. The first sign is the one that is told.
func (d *detector) fire(observed lockstore.Token, format string, args ...any) error {
	d.outside.Rise(observed)
	closed := grantsClosed(fmt.Sprintf("%s --observed %s", planHint, observed), format, args...)
	if !d.setBack.CompareAndSwap(nil, closed) {
		return d.setBack.Load() //nolint:wrapcheck // it is this package's own
	}
	return closed
}

func (d *detector) witness(shown lockstore.Token) string {
	if d.outside.Mark != nil && shown > d.outside.Mark.Seen() {
		return "the outside mark " + d.outside.Mark.Path() + " says"
	}
	return "this process knows"
}

// compare looks at the cluster again where it may be another one than it was.
func (s *Store) compare(ctx context.Context) error {
	d := s.detector
	const doing = "compare the etcd cluster with what is known outside of it"
	select {
	case d.turn <- struct{}{}:
		defer func() { <-d.turn }()
	case <-d.over:
		return &lockstore.UnreachableError{Doing: doing, Err: errors.New("the store is closed")}
	case <-ctx.Done():
		return &lockstore.UnreachableError{Doing: doing, Err: context.Cause(ctx)}
	}
	if d.isCompared() {
		return nil // somebody else has done it meanwhile
	}
	if unwritten := d.outside.Unwritten(); unwritten != nil {
		return unwritten
	}
	// Counted before: a connection that is made meanwhile asks for another look.
	connections := d.connections.Load()
	if err := s.enterEra(ctx); err != nil {
		return err
	}
	if err := s.standing(ctx); err != nil {
		return err
	}
	if err := s.cleared(ctx); err != nil {
		return err
	}
	if err := s.skip(ctx); err != nil {
		return err
	}
	d.compared.Store(connections)
	return nil
}

// standing fires when the cluster's revision is below what was shown, or, the first
// time, below what paydb has.
func (s *Store) standing(ctx context.Context) error {
	d := s.detector
	var paid lockstore.Token
	if !d.opened {
		var err error
		if paid, err = s.paid(ctx); err != nil {
			return err
		}
		if err := s.openMark(ctx); err != nil {
			return err
		}
	}
	if err := d.outside.Hear(); err != nil {
		return err
	}
	shown := d.shown() // before the revision, since both grow meanwhile
	last, err := s.revision(ctx)
	if err != nil {
		return err
	}
	if last < shown {
		return d.fire(shown, "its revision is %s, and token %s was shown already, as %s; it was restored or copied back", last, shown, d.witness(shown))
	}
	if last < paid {
		forged, err := s.calledForged(ctx, paid)
		if err != nil {
			return err
		}
		if !forged {
			return d.fire(paid, "its revision is %s, and paydb holds token %s; it was restored or copied back", last, paid)
		}
	}
	if !d.opened && d.outside.Mark != nil {
		if err := s.keepMark(ctx, last); err != nil {
			return err
		}
		d.stop = d.outside.Start(ctx)
	}
	d.opened = true
	return nil
}

// revision is the cluster's, as a quorum knows it.
func (s *Store) revision(ctx context.Context) (lockstore.Token, error) {
	got, err := s.read(ctx, "read the revision of the etcd cluster", clientv3.OpGet(s.keys.floor()))
	return lockstore.Token(got.revision), err
}

// cleared lets a store grant again that has seen the cluster set back, once a
// fast-forward has reached what it saw. One from before, which a snapshot brings along,
// did not.
func (s *Store) cleared(ctx context.Context) error {
	d := s.detector
	setBack := d.setBack.Load()
	if setBack == nil {
		return nil
	}
	records, err := s.OperatorLog(ctx, lockstore.OperatorLogFilter{Action: lockstore.ActionFastForwardDone})
	if err != nil {
		return err
	}
	for _, record := range records {
		if record.Token >= d.shown() {
			d.setBack.CompareAndSwap(setBack, nil)
			return nil
		}
	}
	return setBack //nolint:wrapcheck // it is this package's own
}

// skip raises the revision past the mark's ceiling: what lies below it a process may
// have shown that died before it told the mark, in a cluster of which this is a copy
// that has it not. None lies higher.
func (s *Store) skip(ctx context.Context) error {
	d := s.detector
	if d.outside.Mark == nil {
		return nil
	}
	state, err := d.outside.Mark.Read()
	if err != nil {
		return d.outside.Refusal(err)
	}
	last, err := s.revision(ctx)
	if err != nil || last >= state.Ceiling {
		return err
	}
	if state.Ceiling-last > MostSkipped {
		return d.fire(state.Ceiling, "its revision is %s, and tokens up to %s may have been shown, as the outside mark %s says", last, state.Ceiling, d.outside.Mark.Path())
	}
	return s.skipTo(ctx, state.Ceiling)
}

// paid is the highest token that paydb knows. One that cannot be read is no 0.
func (s *Store) paid(ctx context.Context) (lockstore.Token, error) {
	if s.options.PayHighest == nil {
		return 0, nil
	}
	paid, err := s.options.PayHighest(ctx)
	if err != nil && ctx.Err() == nil {
		return 0, grantsClosed("see that paydb can be read, then try again", "the tokens of paydb are not known: %v", err)
	}
	return paid, err
}

// calledForged tells whether an operator has said with a fast-forward that this very
// token was never issued (K-1.6): a fence is never lowered, so paydb shows it for
// ever, and what lies below it is not known then.
func (s *Store) calledForged(ctx context.Context, token lockstore.Token) (bool, error) {
	records, err := s.OperatorLog(ctx, lockstore.OperatorLogFilter{Action: lockstore.ActionFastForward})
	if err != nil {
		return false, err
	}
	for _, record := range records {
		for _, e := range recordOf(record).Evidence {
			if e.Above == token.String() {
				return true, nil
			}
		}
	}
	return false, nil
}

// errReconnected is of a grant that was under way while a connection was made anew: it
// is given back, and tried again.
var errReconnected = errors.New("connections to the cluster are made anew all the time")

// clear says whether a token that the cluster has issued may be shown: above all that
// was shown before it was asked for, by a cluster that is the one that was compared,
// and not above the mark's ceiling.
func (s *Store) clear(ctx context.Context, asked, token lockstore.Token) error {
	d := s.detector
	if token <= asked {
		return d.fire(asked, "it issued token %s after %s had been shown, as %s; it was restored or copied back", token, asked, d.witness(asked))
	}
	if !d.isCompared() {
		if err := s.compare(ctx); err != nil {
			return err
		}
		if d.outside.Mark != nil {
			return errReconnected // it was issued before the skip to the ceiling
		}
	}
	if d.outside.Mark != nil {
		if err := d.outside.Refusal(d.outside.Mark.Cover(ctx, token)); err != nil {
			return err
		}
		d.outside.Mark.Saw(token)
	}
	d.outside.Rise(token)
	return nil
}
