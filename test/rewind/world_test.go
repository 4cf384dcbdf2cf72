package rewind_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/paystore/posting"
	"github.com/dlockctl/dlockctl/internal/paystore/rail"
	"github.com/dlockctl/dlockctl/internal/pgtest"
)

// world is what no restore of lockdb sets back: paydb, the rail, and what clients
// remember.
type world struct {
	paydb place
	rail  *countingRail
	// db is paydb where it is one that can be cloned.
	db pgtest.DB
	// markDir is the folder of the outside mark, "" for none.
	markDir string
	// blind takes a guard out: before the first grant nobody asks paydb.
	blind bool

	mu sync.Mutex
	// shown are the tokens that were shown to somebody; highest is the last of them.
	shown   map[lockstore.Token]bool
	highest lockstore.Token
}

func newWorld(t *testing.T, major int) *world {
	t.Helper()
	db := pgtest.Migrated(t, major).Pay
	return &world{paydb: db.DSN, db: db, rail: newRail(), shown: map[lockstore.Token]bool{}}
}

// fork is the same world once more, from this moment on, blind and without a mark.
// Nobody may be connected to its paydb.
func (w *world) fork(t *testing.T) *world {
	t.Helper()
	db := w.db.Server.CloneOf(t, w.db.Name)
	return &world{paydb: db.DSN, db: db, rail: w.rail.fork(), blind: true, shown: maps.Clone(w.shown), highest: w.highest}
}

// note remembers a token, and tells whether it was shown before.
func (w *world) note(token lockstore.Token) (again bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	again = w.shown[token]
	w.shown[token] = true
	w.highest = max(w.highest, token)
	return again
}

func (w *world) tokens() []lockstore.Token {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(maps.Keys(w.shown))
}

// account is the n-th that is seeded. These hold EUR: 1, 3, 4, 7 and 8.
func account(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) }

// service is the stores that the services stand on, each under its own role.
type service struct {
	*world
	locks *postgres.Store
	money *posting.Store
	proxy *rail.Proxy
	// resource is what money stands on.
	resource *paystore.DB
	close    func()
}

// serve opens them; lockdb is where it says, and must grant.
func (w *world) serve(t *testing.T, lockdb place) *service {
	t.Helper()
	locks, err := w.openLocks(t, lockdb, postgres.Granting)
	if err != nil {
		t.Fatal(err)
	}
	open := func(login string) *paystore.DB {
		db, err := paystore.Open(t.Context(), paystore.Options{Config: w.paydb.config(t, login), Purpose: paystore.Changing, MaxConns: 4})
		if err != nil {
			t.Fatal(err)
		}
		return db
	}
	resource, attempts := open("t_resource"), open("t_rail")
	s := &service{world: w, locks: locks, money: posting.New(resource, posting.Options{}), resource: resource}
	s.proxy = rail.New(attempts, w.rail, rail.Options{})
	s.close = sync.OnceFunc(func() { s.proxy.Close(); attempts.Close(); resource.Close(); locks.Close() })
	t.Cleanup(s.close)
	return s
}

// openLocks compares with the mark and with paydb, as lock-server does.
func (w *world) openLocks(t *testing.T, lockdb place, purpose postgres.Purpose) (*postgres.Store, error) {
	t.Helper()
	opts := postgres.Options{Config: lockdb.config(t, "t_lockapp"), Purpose: purpose, MaxConns: 8, MarkDir: w.markDir}
	if !w.blind {
		opts.PayHighest = w.payHighest
	}
	return postgres.Open(t.Context(), opts)
}

// payHighest is what payment-resource and rail-proxy would say.
func (w *world) payHighest(ctx context.Context) (highest lockstore.Token, err error) {
	conn, err := pgx.Connect(ctx, w.paydb("t_auditor"))
	if err != nil {
		return 0, err
	}
	defer conn.Close(ctx)
	err = conn.QueryRow(ctx, `SELECT greatest((SELECT max(fence) FROM account), (SELECT max(highest_token) FROM rail_high_water), 0)`).Scan(&highest)
	return highest, err
}

// holder is a client that was shown a token, and remembers it for ever.
type holder struct {
	name, account string
	session       lockstore.SessionID
	token         lockstore.Token
	// again tells that the token was shown to somebody before.
	again bool
	// payout is the one it is about to pay, key the rail's.
	payout, key string
}

func (h holder) lock() string             { return "account:" + h.account }
func (h holder) presents() paystore.Token { return paystore.Token(h.token) }

// acquire is a holder's first step; release ends its session's use of the key.
func (s *service) acquire(ctx context.Context, name, account string) (holder, error) {
	session, err := s.locks.CreateSession(ctx, name, time.Hour)
	if err != nil {
		return holder{}, err
	}
	h := holder{name: name, account: account, session: session.ID}
	grant, err := s.locks.Acquire(ctx, lockstore.AcquireParams{Key: h.lock(), Owner: name, Session: session.ID, TTL: time.Hour})
	if err != nil {
		return holder{}, err
	}
	h.token, h.again = grant.Token, s.note(grant.Token)
	return h, nil
}

func (s *service) holds(t *testing.T, name, account string) holder {
	t.Helper()
	h, err := s.acquire(t.Context(), name, account)
	if err != nil {
		t.Fatalf("%s acquires: %v", name, err)
	}
	return h
}

func (s *service) releases(t *testing.T, h holder) {
	t.Helper()
	if released, err := s.locks.Release(t.Context(), h.lock(), h.token); err != nil || released.Stale {
		t.Fatalf("%s releases: %+v, %v", h.name, released, err)
	}
}

// takesUp gives a holder a new payout of its account.
func (s *service) takesUp(t *testing.T, h *holder) {
	t.Helper()
	h.key = "key-" + uuid.NewString()
	p, _, err := s.money.Create(t.Context(), posting.CreateParams{AccountID: h.account, AmountMinor: 7, Currency: "EUR", IdempotencyKey: h.key})
	if err != nil {
		t.Fatal(err)
	}
	h.payout = p.PayoutID
}

// stage is how far a holder goes.
type stage string

// The stages of a payout, in their order.
const (
	claims  stage = "claim"
	funds   stage = "check the funds"
	submits stage = "submit"
	sends   stage = "send to the rail"
	settles stage = "settle"
	posts   stage = "post"
)

// pay takes the stages of the holder's payout up to one, from where the payout
// stands, and tells at which it was refused.
func (s *service) pay(ctx context.Context, h holder, upTo stage) (at stage, err error) {
	p, err := s.money.Claim(ctx, h.payout, h.name, h.presents())
	if err != nil {
		return claims, err
	}
	for _, step := range []struct {
		stage stage
		in    paystore.State // the state it leaves, "" for any
		take  func() error
	}{
		{funds, paystore.Claimed, func() error { return s.money.CheckFunds(ctx, h.payout, h.presents()) }},
		{submits, paystore.Claimed, func() error { _, err := s.money.Submit(ctx, h.payout, h.presents()); return err }},
		{sends, "", func() error { return s.send(ctx, h) }},
		{settles, "", func() error { return s.settle(ctx, h) }},
		{posts, "", func() error { _, err := s.money.Post(ctx, h.payout, h.presents()); return err }},
	} {
		if step.in != "" && step.in != p.State || p.State == paystore.RailAcked && step.stage != posts {
			continue
		}
		if err := step.take(); err != nil {
			return step.stage, err
		}
		if step.stage == upTo {
			break
		}
	}
	return upTo, nil
}

func (s *service) send(ctx context.Context, h holder) error {
	_, err := s.proxy.Submit(ctx, h.payout, h.presents())
	return err
}

func (s *service) settle(ctx context.Context, h holder) error {
	_, err := s.money.Settle(ctx, h.payout, h.presents())
	return err
}

// goes is pay of a holder that nobody should refuse.
func (s *service) goes(t *testing.T, h holder, upTo stage) {
	t.Helper()
	if at, err := s.pay(t.Context(), h, upTo); err != nil {
		t.Fatalf("%s with token %s, at the stage %q: %v", h.name, h.token, at, err)
	}
}

// works pays n payouts of an account, each under a grant of its own.
func (s *service) works(t *testing.T, name, account string, n int) {
	t.Helper()
	for range n {
		h := s.holds(t, name, account)
		s.takesUp(t, &h)
		s.goes(t, h, posts)
		s.releases(t, h)
	}
}
