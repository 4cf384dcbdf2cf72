package scenario

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/restore"
)

const (
	third = "worker-c"
	// resumesWithin bounds how long a client that lived through a restore may find
	// its connections dead before it gets an answer.
	resumesWithin = 30 * time.Second
	// forgottenGrants are more than the 32 numbers that PostgreSQL writes ahead, which
	// a standby knows as well.
	forgottenGrants = 40
)

// Rewind is what sets a lockdb back, and what brings it forward again.
type Rewind struct {
	// Prepare comes before the first grant, nil for nothing. Backup makes what lockdb
	// is set back to: an exact copy, identifier and timeline included, or a standby
	// that is cut off here; and PutBack puts it in lockdb's place. Each may end every
	// connection to lockdb.
	Prepare, Backup, PutBack func(ctx context.Context) error
	// Promoted tells that it is a standby, which PutBack promotes.
	Promoted bool
	// Observe connects an observer to lockdb as it is now.
	Observe func(ctx context.Context) (*pgx.Conn, error)
	// Stores opens what a fast-forward works on, and returns what closes it.
	Stores func(ctx context.Context) (restore.Stores, func(context.Context), error)
	// FastForward is restore.FastForward.
	FastForward func(ctx context.Context, stores restore.Stores, opts restore.Options) (restore.Result, error)
}

// DrillRestore plays a lock database that is set back to before its last grants, by a
// copy or, as cast.Rewind has it, by the promotion of a standby: clients are refused,
// it is moved forward, and nobody's token is issued again. It sets lockdb back, so it
// is for throw-away databases alone. It needs cast.Rewind.
func DrillRestore(ctx context.Context, cast Cast) []DrillStep {
	t := &takeover{play: play{Cast: cast}}
	defer t.leave()
	return report(t.run(ctx, t.findAccount, t.openMoney, t.rewind))
}

// rewind is the story of a lockdb that comes back from a copy.
type rewind struct {
	*takeover
	words words
	// survivor is the client that lives through the restore.
	survivor lockstore.Store
	// kept is the token of the grant that the copy has, lost that of the one it lacks.
	kept, lost lockstore.Token
	// stood is the token last issued as the copy knows it, reached where the
	// fast-forward left it.
	stood, reached lockstore.Token
	// stalled is the payout that the lost token has taken to the rail's door, fresh
	// one that nobody has claimed.
	stalled, fresh string
	// asked counts the rail's requests before the restore.
	asked int64
}

func (r *rewind) leave() {
	if r.survivor != nil {
		r.survivor.Close()
	}
}

// rewind plays it; where nothing may be set back, nothing happens.
func (t *takeover) rewind(ctx context.Context) error {
	if t.Rewind == nil {
		return nil
	}
	r := &rewind{takeover: t, words: wordsFor(t.Rewind.Promoted)}
	defer r.leave()
	for _, chapter := range []func(context.Context) error{r.backup, r.setBack, r.fault, r.forward, r.after} {
		if err := chapter(ctx); err != nil {
			return err
		}
	}
	return nil
}

// backup grants a lock, lets the copy be made, and goes on: the second worker's
// grants, its payment and what it has under way are in no copy.
func (r *rewind) backup(ctx context.Context) error {
	r.chapter(r.words.title)
	if prepare := r.Rewind.Prepare; prepare != nil {
		r.step("lockdb gets an asynchronous standby")
		if err := prepare(ctx); err != nil {
			return err
		}
	}
	r.step("%s acquires %s; then %s", first, r.key, r.words.backup)
	a, err := r.Open(ctx)
	if err != nil {
		return err
	}
	defer a.Close()
	if r.kept, err = r.enter(ctx, a, first); err != nil {
		return err
	}
	if err := r.Rewind.Backup(ctx); err != nil {
		return err
	}
	r.step("%s hands the lock over; %s acquires it, pays a payout, and takes another to the rail's door", first, second)
	if err := r.release(ctx, r.kept); err != nil {
		return err
	}
	if r.survivor, err = r.Open(ctx); err != nil {
		return err
	}
	return r.forgotten(ctx)
}

// forgotten is what the second worker does after the copy was made. A token posts
// once on an account, so it re-enters for the next payout.
func (r *rewind) forgotten(ctx context.Context) error {
	session, err := r.survivor.CreateSession(ctx, second, sessionTTL)
	if err != nil {
		return err
	}
	paid, err := r.createPayouts(ctx)
	if err != nil {
		return err
	}
	m := &r.money
	var token paystore.Token
	for range forgottenGrants {
		if token, err = r.hold(ctx, r.survivor, second, session.ID, sessionTTL); err != nil {
			return err
		}
	}
	if err := m.pay(ctx, paid, second, token); err != nil {
		return err
	}
	state, fence, err := r.posted(ctx, paid)
	if err != nil {
		return err
	}
	r.prove(proof{"posted", "K-4.7", "a payout is posted under a token that " + r.words.it + " does not know", fence, second},
		state == string(paystore.Posted) && fence == lockstore.Token(token) && fence > r.kept, "payout %s is %s under token %s; "+r.words.made+" at %s", paid, state, fence, r.kept)
	if token, err = r.hold(ctx, r.survivor, second, session.ID, sessionTTL); err != nil {
		return err
	}
	r.lost, r.asked = lockstore.Token(token), m.at.received.Load()
	return m.submit(ctx, r.stalled, second, token)
}

// setBack puts the copy in lockdb's place, and everybody comes back.
func (r *rewind) setBack(ctx context.Context) error {
	r.chapter(r.words.back)
	r.step("%s", r.words.takesPlace)
	if err := r.Rewind.PutBack(ctx); err != nil {
		return err
	}
	var owner string
	var token lockstore.Token
	var err error
	if r.stood, owner, token, err = r.standing(ctx); err != nil {
		return err
	}
	r.prove(proof{"set_back", "K-7.6", "the last token is below one that was paid with, and the lease of before is alive again", r.kept, first},
		r.stood < r.lost && owner == first && token == r.kept, "last token %s; lock_entry: %s with token %s", r.stood, orNobody(owner), token)

	r.step("%s opens lockdb, as a process does that was just started", third)
	refusal, err := r.newcomer(ctx)
	if err != nil {
		return err
	}
	r.prove(proof{"newcomer_refused", "K-7.6", "a new client is refused: " + r.words.refused, 0, third},
		refusal != nil && strings.Contains(refusal.Error(), r.words.says), "%v", orGranted(refusal))
	r.step("%s, which lived through it, asks for a lock", second)
	if refusal, err = r.resumes(ctx); err != nil {
		return err
	}
	r.prove(proof{"survivor_refused", "K-7.6", "a client that saw a higher token is refused", r.lost, second},
		refusal != nil && strings.Contains(refusal.Error(), "this process knows"), "%v", orGranted(refusal))
	last, _, _, err := r.standing(ctx)
	if err != nil {
		return err
	}
	r.prove(proof{"nothing_drawn", "K-1.3", "no number was drawn meanwhile", last, ""}, last == r.stood, "last token %s, as before", last)
	return nil
}

// forward asks for the plan and carries it out.
func (r *rewind) forward(ctx context.Context) error {
	r.chapter("Fast-forward")
	stores, closeAll, err := r.Rewind.Stores(ctx)
	if err != nil {
		return err
	}
	defer closeAll(ctx)
	opts := restore.Options{Operator: operator, Reason: r.words.reason}
	r.step("%s asks for the plan", operator)
	plan, err := restore.Prepare(ctx, stores, opts)
	if err != nil {
		return err
	}
	var signs []string
	for _, s := range plan.Signs {
		if !slices.Contains(signs, s.ID) {
			signs = append(signs, s.ID)
		}
	}
	r.prove(proof{"sign", "K-7.6", "the plan names the sign that fired, and the highest token", plan.Observed, ""},
		slices.Contains(signs, r.words.sign) && slices.Contains(signs, "paydb_ahead") && plan.Outcome == restore.Advanced && plan.Observed >= r.lost,
		"%s: %s; highest %s, from %s", plan.Outcome, strings.Join(signs, " "), plan.Observed, plan.ObservedIn)
	r.step("%s carries it out", operator)
	result, err := r.Rewind.FastForward(ctx, stores, opts)
	if err != nil {
		return err
	}
	last, owner, _, err := r.standing(ctx)
	if err != nil {
		return err
	}
	r.reached = last
	r.prove(proof{"fast_forward", "K-7.4", "the last token is above everything that was issued, and grants go on", last, ""},
		result.Outcome == restore.Advanced && result.GateOpen && last > r.lost, "%s; last token %s; grants: %t", result.Outcome, last, result.GateOpen)
	r.prove(proof{"leases_void", "K-7.5", "the lease of before is void", r.kept, first}, owner == "", "lock_entry: %s", orNobody(owner))
	return nil
}

// after lets the first new holder in, and the one with the lost token.
func (r *rewind) after(ctx context.Context) error {
	r.chapter("A new holder, and the one whose token was forgotten")
	r.step("%s acquires %s", third, r.key)
	c, err := r.Open(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	token, err := r.enter(ctx, c, third)
	if err != nil {
		return err
	}
	r.prove(proof{"first_token", "K-1.3", "the first new token is above everything that was issued", token, third},
		token > r.lost && token > r.reached, "token %s, after %s and a fast-forward to %s", token, r.lost, r.reached)
	if err := r.staleHolder(ctx); err != nil {
		return err
	}
	r.step("%s takes over what %s has left at the rail's door", third, second)
	m := &r.money
	if err := m.pay(ctx, r.stalled, third, paystore.Token(token)); err != nil {
		return err
	}
	state, fence, err := r.posted(ctx, r.stalled)
	if err != nil {
		return err
	}
	requests := m.at.received.Load() - r.asked
	r.prove(proof{"finished", "K-5.2", "it is posted under the new token, and the rail was asked once", token, third},
		state == string(paystore.Posted) && fence == token && requests == 1, "payout %s is %s under token %s; requests at the rail: %d", r.stalled, state, fence, requests)
	return r.verify(ctx)
}

// staleHolder comes back with the token that lockdb has forgotten.
func (r *rewind) staleHolder(ctx context.Context) error {
	// The floors refuse it: neither fence nor mark has seen the new token yet.
	m, stale := &r.money, paystore.Token(r.lost)
	r.step("%s goes on with token %s, at the account and at the rail", second, stale)
	_, err := m.posting.Claim(ctx, r.fresh, second, stale)
	if err == nil {
		err = m.posting.CheckFunds(ctx, r.fresh, stale)
	}
	refused, err := fencedAt(err, paystore.ResourceFloor)
	if err != nil {
		return err
	}
	r.prove(proof{"account_fenced", "K-7.8", "the account refuses the forgotten token", r.lost, second}, refused != nil, "%v", orGranted(asError(refused)))
	_, err = m.rail.Submit(ctx, r.stalled, stale)
	if refused, err = fencedAt(err, paystore.ResourceFloor); err != nil {
		return err
	}
	r.prove(proof{"rail_fenced", "K-7.8", "the rail refuses the forgotten token, and is not asked", r.lost, second},
		refused != nil && m.at.received.Load() == r.asked, "%v; requests at the rail: %d", orGranted(asError(refused)), m.at.received.Load()-r.asked)
	return nil
}

func (r *rewind) verify(ctx context.Context) error {
	stores, closeAll, err := r.Rewind.Stores(ctx)
	if err != nil {
		return err
	}
	defer closeAll(ctx)
	verified, err := restore.Verify(ctx, stores, restore.Options{})
	if err != nil {
		return err
	}
	var findings []string
	for _, f := range verified.Findings {
		findings = append(findings, f.ID)
	}
	r.prove(proof{"verified", "K-7.7", "the present state is proven safe", verified.Last, ""},
		verified.Safe, "safe: %t; last token %s; findings: %s", verified.Safe, verified.Last, orNone(findings))
	return nil
}

// enter opens a session and acquires the key in it.
func (r *rewind) enter(ctx context.Context, store lockstore.Store, owner string) (lockstore.Token, error) {
	session, err := store.CreateSession(ctx, owner, sessionTTL)
	if err != nil {
		return 0, err
	}
	token, err := r.hold(ctx, store, owner, session.ID, sessionTTL)
	return lockstore.Token(token), err
}

// release gives the first worker's lock back through a client of its own, for the
// backup has ended the other's connection.
func (r *rewind) release(ctx context.Context, token lockstore.Token) error {
	store, err := r.Open(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	_, err = store.Release(ctx, r.key, token)
	return err
}
