package scenario

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/paystore/posting"
	"github.com/dlockctl/dlockctl/internal/paystore/rail"
	"github.com/dlockctl/dlockctl/internal/paystore/resolver"
	"github.com/dlockctl/dlockctl/internal/reconcile"
)

// railDeadline is the forwarding deadline of the drill: so long the silence is borne.
// What is answered at once must come within it on a busy machine too.
const railDeadline = 3 * time.Second

// DrillRailTimeout plays a rail that goes silent: it has paid one payout and never
// received another, and nobody can tell. Both become RAIL_AMBIGUOUS, whoever comes next
// sends neither again, others on the account are paid, and when the rail speaks again
// its own record settles both. It needs migrated databases and a seeded account.
func DrillRailTimeout(ctx context.Context, cast Cast) []DrillStep {
	t := &takeover{play: play{Cast: cast}}
	defer t.leave()
	s := &silence{takeover: t, at: &muteRail{payments: map[string]int{}}}
	return report(t.run(ctx, t.findAccount, t.openClients, s.open, s.falls, s.heir, s.passes, s.speaks, s.settle))
}

// silence is the story of a rail that does not answer.
type silence struct {
	*takeover
	at *muteRail
	db *paystore.DB
	// paid is what the rail has paid, swallowed what never reached it, other one that
	// comes after.
	paid, swallowed, other string
	keys                   map[string]string
}

// muteRail is a rail with a record of its own, which may say nothing of it.
type muteRail struct {
	mu sync.Mutex
	// payments counts the payments made by key, requests what was received.
	payments map[string]int
	requests int
	// mute answers nothing, loses drops what it receives.
	mute, loses bool
}

func (r *muteRail) become(mute, loses bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mute, r.loses = mute, loses
}

func (r *muteRail) Submit(ctx context.Context, req rail.Request) (rail.Answer, error) {
	r.mu.Lock()
	r.requests++
	mute := r.mute
	if !r.loses {
		r.payments[req.Key]++
	}
	r.mu.Unlock()
	if mute {
		<-ctx.Done()
		return rail.Answer{}, fmt.Errorf("the rail does not answer: %w", context.Cause(ctx))
	}
	return rail.Answer{Outcome: paystore.OutcomeAcked, Reference: "DRILL-" + req.Key}, nil
}

func (r *muteRail) Status(ctx context.Context, key string) (rail.Answer, error) {
	r.mu.Lock()
	mute, paid := r.mute, r.payments[key]
	r.mu.Unlock()
	switch {
	case mute:
		<-ctx.Done()
		return rail.Answer{}, fmt.Errorf("the rail does not answer: %w", context.Cause(ctx))
	case paid == 0:
		return rail.Answer{Outcome: rail.NotFound}, nil
	default:
		return rail.Answer{Outcome: paystore.OutcomeAcked, Reference: "DRILL-" + key}, nil
	}
}

// seen is how many requests came, and how often a key was paid.
func (r *muteRail) seen(key string) (requests, payments int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.requests, r.payments[key]
}

func (s *silence) open(ctx context.Context) error {
	if err := s.openMoney(ctx); err != nil {
		return err
	}
	s.db = s.dbs[0]
	s.money.rail.Close()
	s.money.rail = rail.New(s.dbs[1], s.at, rail.Options{Timeout: railDeadline, Listen: time.Millisecond})
	s.keys = map[string]string{}
	for _, id := range []*string{&s.paid, &s.swallowed, &s.other} {
		key := "drill-" + uuid.NewString()
		p, _, err := s.money.posting.Create(ctx, posting.CreateParams{AccountID: s.money.account, AmountMinor: payoutMinor, Currency: s.currency, IdempotencyKey: key})
		if err != nil {
			return err
		}
		*id, s.keys[p.PayoutID] = p.PayoutID, key
	}
	return nil
}

// falls lets the rail fall silent with two payouts under way.
func (s *silence) falls(ctx context.Context) error {
	s.chapter("The rail goes silent")
	for _, c := range []struct {
		id, step, payout, must string
		loses                  bool
	}{
		{"paid_unheard", "%s hands a payout to the rail, which pays it and says nothing", s.paid, "a payout without an answer is RAIL_AMBIGUOUS once the deadline has passed", false},
		{"lost_unheard", "%s hands another to the rail, which never takes it in and says nothing", s.swallowed, "so is one that the rail never took in: nobody can tell the two apart", true},
	} {
		s.at.become(true, c.loses)
		s.step(c.step, first)
		token, err := s.hold(ctx, s.a, first, s.sessionA, longLease)
		if err != nil {
			return err
		}
		s.stalled = lockstore.Token(token)
		if err := s.money.submit(ctx, c.payout, first, token); err != nil {
			return err
		}
		if _, err := s.money.rail.Submit(ctx, c.payout, token); err != nil {
			return err
		}
		if _, err := s.money.posting.Settle(ctx, c.payout, token); err != nil {
			return err
		}
		if err := s.stands(ctx, proof{c.id, "K-5.3", c.must, s.stalled, first}, c.payout, paystore.RailAmbiguous, paystore.OutcomeTimeout, 0); err != nil {
			return err
		}
	}
	_, err := s.a.Release(ctx, s.key, s.stalled)
	return err
}

// heir takes both over and finds that it cannot send, post or guess.
func (s *silence) heir(ctx context.Context) error {
	s.chapter("Another holder comes, and the rail is still silent")
	before, _ := s.at.seen("")
	s.step("%s takes the payouts over and hands them to the rail's door", second)
	var tokens []paystore.Token
	for _, id := range []string{s.paid, s.swallowed} {
		token, err := s.hold(ctx, s.b, second, s.sessionB, longLease)
		if err != nil {
			return err
		}
		tokens = append(tokens, token)
		if _, err := s.money.posting.Claim(ctx, id, second, token); err != nil {
			return err
		}
		if _, err := s.money.rail.Submit(ctx, id, token); err != nil {
			return err
		}
	}
	s.current = lockstore.Token(tokens[1])
	after, _ := s.at.seen("")
	s.prove(proof{"sent_once", "K-5.3", "neither is sent again: the attempt that stands is the answer", s.current, second}, after == before,
		"requests at the rail: %d before, %d after", before, after)

	s.step("%s would post the one that was paid", second)
	_, err := s.money.posting.Post(ctx, s.paid, tokens[0])
	if _, notYet := errors.AsType[*paystore.StateError](err); err != nil && !notYet {
		return err
	}
	s.prove(proof{"not_posted", "K-5.1", "nothing is posted on a guess", lockstore.Token(tokens[0]), second}, err != nil, "post: %v", orGranted(err))

	s.step("%s asks the rail", second)
	asking, cancel := context.WithTimeout(ctx, 2*railDeadline)
	defer cancel()
	_, err = s.money.rail.Ask(asking, s.paid)
	s.prove(proof{"silent_still", "K-5.3", "it says nothing", s.current, second}, err != nil, "ask: %v", orGranted(err))
	return s.stands(ctx, proof{"stays_unknown", "K-5.3", "without an answer it stays unknown", lockstore.Token(tokens[0]), second},
		s.paid, paystore.RailAmbiguous, paystore.OutcomeTimeout, 0)
}

// passes pays another payout of the account, which the unknown ones do not hold up.
func (s *silence) passes(ctx context.Context) error {
	s.chapter("The account goes on")
	s.at.become(false, false)
	s.step("the rail answers what is new; %s pays the account's next payout", second)
	token, err := s.hold(ctx, s.b, second, s.sessionB, longLease)
	if err != nil {
		return err
	}
	s.current = lockstore.Token(token)
	if err := s.money.pay(ctx, s.other, second, token); err != nil {
		return err
	}
	return s.stands(ctx, proof{"others_pass", "K-5.2", "what is unknown does not hold up the account's next payout", s.current, second},
		s.other, paystore.Posted, paystore.OutcomeAcked, 2)
}

// speaks asks the rail for its record and follows it.
func (s *silence) speaks(ctx context.Context) error {
	s.chapter("The rail's own record decides")
	r := resolver.New(s.db, s.money.posting, s.money.rail, resolver.Options{Deadline: railDeadline, Operator: operator, Reason: "drill: the rail speaks again"})
	for _, c := range []struct {
		id, payout, must string
		state            paystore.State
		outcome          paystore.Outcome
		legs             int
	}{
		{"paid_settled", s.paid, "what the rail has paid is posted, once", paystore.Posted, paystore.OutcomeAcked, 2},
		{"lost_settled", s.swallowed, "what it has no record of is FAILED, and was never paid", paystore.Failed, paystore.OutcomeTimeout, 0},
	} {
		s.step("%s asks the rail about payout %s, and settles it", operator, c.payout)
		token, err := s.hold(ctx, s.b, second, s.sessionB, longLease)
		if err != nil {
			return err
		}
		s.current = lockstore.Token(token)
		result, err := r.Settle(ctx, c.payout, token)
		if err != nil {
			return err
		}
		if result.Fate == resolver.Acked {
			if _, err := s.money.posting.Post(ctx, c.payout, token); err != nil {
				return err
			}
		}
		if err := s.stands(ctx, proof{c.id, "K-5.3", c.must, s.current, operator}, c.payout, c.state, c.outcome, c.legs); err != nil {
			return err
		}
	}
	_, err := s.b.Release(ctx, s.key, s.current)
	return err
}

// settle compares everything: what the rail counts, and the whole catalogue.
func (s *silence) settle(ctx context.Context) error {
	requests, paid := s.at.seen(s.keys[s.paid])
	_, swallowed := s.at.seen(s.keys[s.swallowed])
	_, other := s.at.seen(s.keys[s.other])
	s.prove(proof{"paid_once", "K-5.3", "three payouts were sent once each, and the rail paid two", s.current, ""},
		requests == 3 && paid == 1 && other == 1 && swallowed == 0, "requests at the rail: %d; paid: %d, %d and %d times", requests, paid, other, swallowed)
	compared, err := s.compareAll(ctx)
	if err != nil {
		return err
	}
	s.expect("reconciled", "K-8.1", "money and locks agree", compared.Outcome == reconcile.Clean,
		"%s over %d rules, %d findings", compared.Outcome, len(compared.Coverage), len(compared.Findings))
	return nil
}

// stands reads a payout back.
func (s *silence) stands(ctx context.Context, of proof, payout string, state paystore.State, outcome paystore.Outcome, legs int) error {
	var gotState, gotOutcome string
	var gotLegs, evidence int
	err := s.Pay.QueryRow(ctx, `SELECT p.state, coalesce(r.outcome, ''), (SELECT count(*) FROM ledger_entry l WHERE l.payout_id = p.payout_id),
		(SELECT count(*) FROM payout_resolution e WHERE e.payout_id = p.payout_id)
		FROM payout p LEFT JOIN rail_submission r ON r.payout_id = p.payout_id AND r.outcome IS DISTINCT FROM 'FENCED' WHERE p.payout_id = $1`, payout).
		Scan(&gotState, &gotOutcome, &gotLegs, &evidence)
	if err != nil {
		return fmt.Errorf("read back the payout: %w", err)
	}
	s.prove(of, gotState == string(state) && gotOutcome == string(outcome) && gotLegs == legs,
		"payout %s is %s, its attempt %s, %d legs, %d records of evidence", payout, gotState, orNobody(gotOutcome), gotLegs, evidence)
	return nil
}
