package rail

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/dlockctl/dlockctl/internal/paystore"
)

// The defaults of Options.
const (
	// DefaultTimeout is the forwarding deadline (K-4.11).
	DefaultTimeout = 10 * time.Second
	// DefaultListen is how long a late answer is waited for.
	DefaultListen = 5 * time.Minute
	// DefaultPersist is how long an answer is tried to be recorded.
	DefaultPersist = 10 * time.Second
)

// Options configure New.
type Options struct {
	// Timeout is the forwarding deadline, counted from before the attempt was
	// written: until then the rail may be sent the request and its answer is waited
	// for; then the attempt is TIMEOUT. It must be the same in every process, for one
	// gives up what another has left in flight. Zero is DefaultTimeout.
	Timeout time.Duration
	// Listen is how much longer an answer that comes late is still taken down. Zero
	// is DefaultListen.
	Listen time.Duration
	// Persist is how long an answer is tried to be recorded while paydb is away. Zero
	// is DefaultPersist.
	Persist time.Duration
	// FencingDisabled is rail.proxy.fencing.enabled=false: mark and slot refuse
	// nothing, and every request is forwarded. For negative controls alone (K-4.5).
	FencingDisabled bool
	// Observe is told what is worth a log event and a counter; may be nil. It is
	// called from several goroutines.
	Observe func(context.Context, Event)
}

// The names of events.
const (
	// EventFencedOut is a token that came too late (K-4.4).
	EventFencedOut = "fenced_out"
	// EventDuplicate is a submission that found the rail taken: by a higher token
	// in the mark, or by another token's attempt (K-4.4).
	EventDuplicate = "duplicate_rail_submission_attempted"
	// EventUnrecorded is an answer of the rail that paydb does not have: ask again.
	EventUnrecorded = "rail_answer_unrecorded"
	// EventContradicted is an answer of the rail that says otherwise than an
	// earlier one, which stands.
	EventContradicted = "rail_answer_contradicted"
)

// Event is one thing an operator wants to see. Fields that do not apply are empty.
type Event struct {
	Name      string
	PayoutID  string
	AccountID string
	// Presented is the token of the request, Stored what it met.
	Presented, Stored paystore.Token
	// Said is the rail's answer, Err why it is not recorded.
	Said Answer
	Err  error
}

// Proxy submits payouts to the rail, each once.
type Proxy struct {
	db   *paystore.DB
	rail Rail
	opts Options

	// open are the submissions under way, and the calls to the rail that somebody still
	// listens to.
	open sync.WaitGroup
	// gate is held by who begins a submission, and by who closes.
	gate    sync.Mutex
	closed  bool
	closing chan struct{}
}

// New is a proxy before rail. It does not own db. Close it, to hear the rail out.
func New(db *paystore.DB, rail Rail, opts Options) *Proxy {
	if opts.Timeout <= 0 {
		opts.Timeout = DefaultTimeout
	}
	if opts.Listen <= 0 {
		opts.Listen = DefaultListen
	}
	if opts.Persist <= 0 {
		opts.Persist = DefaultPersist
	}
	return &Proxy{db: db, rail: rail, opts: opts, closing: make(chan struct{})}
}

// Close waits for what is being submitted, until its forwarding deadline, and listens no
// more for late answers: Ask finds them. What is submitted after it is refused, before
// anything is written. One that has begun goes on: its attempt may stand already, and
// nobody else would ever forward it (K-5.3).
func (p *Proxy) Close() {
	p.gate.Lock()
	if !p.closed {
		p.closed = true
		close(p.closing)
	}
	p.gate.Unlock()
	p.open.Wait()
}

// enter counts a submission among the open ones, until leave, and refuses it once Close
// was called: nobody would wait for it (K-4.11).
func (p *Proxy) enter(doing string) (leave func(), err error) {
	p.gate.Lock()
	defer p.gate.Unlock()
	if p.closed {
		return nil, &paystore.UnreachableError{Doing: doing, Err: errClosed}
	}
	p.open.Add(1)
	return p.open.Done, nil
}

// errClosed is why a submission that the proxy's end overtook does not begin.
var errClosed = errors.New("rail-proxy is ending")

func (p *Proxy) observe(ctx context.Context, e Event) {
	if p.opts.Observe != nil {
		p.opts.Observe(ctx, e)
	}
}
