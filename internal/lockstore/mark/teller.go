package mark

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

const (
	// TellEvery is how often the highest token shown is told to the mark, and those
	// of the others are read there.
	TellEvery = 500 * time.Millisecond
	// TellWithin bounds one of these writes.
	TellWithin = 4 * TellEvery
)

// Teller stands between a process that grants and the mark of its deployment: it
// tells the mark what was shown, hears what others have shown, and knows the highest
// of both (K-7.6).
type Teller struct {
	// Mark is nil where none is kept; it is set before the first grant.
	Mark *Mark

	// backend is who grants no locks while the mark cannot be kept, accept the
	// command that goes on without a mark that is lost.
	backend, accept string
	highest         atomic.Int64
	// unwritten is set while the mark cannot be written, and so proves less.
	unwritten atomic.Pointer[lockstore.GrantsClosedError]
}

// NewTeller returns a teller that names the backend in its refusals, and the command
// by which an operator goes on without a mark that is lost.
func NewTeller(backend, accept string) *Teller { return &Teller{backend: backend, accept: accept} }

// Highest is the highest token shown to anybody, by this process or, as far as the
// mark tells, by another.
func (t *Teller) Highest() lockstore.Token { return lockstore.Token(t.highest.Load()) }

// Rise notes a token that was shown, to whomever.
func (t *Teller) Rise(token lockstore.Token) { rise(&t.highest, int64(token)) }

// Unwritten is why grants are refused while the mark cannot be written, or nil.
func (t *Teller) Unwritten() *lockstore.GrantsClosedError { return t.unwritten.Load() }

// Start tells the mark what was shown, and hears what others were, until the
// returned function is called, which has the last word.
func (t *Teller) Start(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(TellEvery)
		defer tick.Stop()
		var told lockstore.Token
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				told = t.tell(ctx, told)
			}
		}
	}()
	return func() {
		cancel()
		<-done
		_ = t.flush(context.WithoutCancel(ctx)) // nobody is left to grant, or to be told
	}
}

// tell refuses grants while the mark cannot be written: what is shown meanwhile
// would be known to nobody after a restore.
func (t *Teller) tell(ctx context.Context, told lockstore.Token) lockstore.Token {
	seen, err := t.Mark.Seen(), error(nil)
	if seen != told || t.unwritten.Load() != nil {
		err = t.Refusal(t.flush(ctx))
	}
	if err == nil {
		err = t.Hear()
	}
	closed, is := errors.AsType[*lockstore.GrantsClosedError](err)
	switch {
	case err == nil:
		t.unwritten.Store(nil)
		return seen
	case ctx.Err() != nil: // the end
	case is:
		t.unwritten.Store(closed)
	default: // somebody sits on its lock
		t.unwritten.Store(t.closed("see who holds the outside mark's lock file, then try again", err))
	}
	return told
}

func (t *Teller) flush(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, TellWithin)
	defer cancel()
	return t.Mark.Flush(ctx)
}

// Hear takes over from the mark what others have shown. It returns what Refusal does.
func (t *Teller) Hear() error {
	if t.Mark == nil {
		return nil
	}
	state, err := t.Mark.Read()
	if err == nil {
		t.Rise(state.Issued)
	}
	return t.Refusal(err)
}

// Refusal is what a mark that cannot be read or raised answers: a
// *lockstore.GrantsClosedError, but for a context that ended. A mark that is gone is
// not made anew as if nothing had been granted.
func (t *Teller) Refusal(err error) error {
	_, damaged := errors.AsType[*DamagedError](err)
	switch {
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case damaged, errors.Is(err, ErrMissing):
		return t.closed("bring the file back; if it is lost, run: "+t.accept, err)
	default:
		return t.closed("see that the folder of the outside mark can be read and written, then try again", err)
	}
}

func (t *Teller) closed(hint string, err error) *lockstore.GrantsClosedError {
	return &lockstore.GrantsClosedError{Reason: fmt.Sprintf("%s grants no locks: %v", t.backend, err), Hint: hint}
}
