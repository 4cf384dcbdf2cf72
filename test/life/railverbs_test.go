package life_test

import (
	"context"
	"time"

	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/paystore/rail"
)

// railSubmit is K-4.11: the mark, the slot, and only then the rail, once.
func (m *machine) railSubmit(p *payout, token paystore.Token, how manner) {
	a := p.account
	want, marks, forwards, refuses := done, token > a.mark, false, false
	switch {
	case p.attempt != nil && (marks || p.attempt.token == token):
		m.saw("rail: its attempt stands")
	case !marks:
		want, refuses = fenced(paystore.ResourceRail, token, a.mark), true
	case !p.claimedOnce(token) && p.claim < token:
		want, marks = invalid, false
	case !p.claimedOnce(token):
		want, refuses = fenced(paystore.ResourcePayout, token, p.claim), true
	case p.state != paystore.RailSubmitted:
		want, marks = inState(p.state), false
	default:
		forwards = true
	}
	if forwards && how == silent {
		want = unknown
	}
	requests := m.b.rail.requests(p.key)
	m.judge("rail submit", want, m.callRail(p, token, how))
	if sent := m.b.rail.requests(p.key) - requests; sent > 0 && !forwards || sent != 1 && forwards && how != resets || sent > 1 {
		m.fail("the rail received %d requests, forwarded %t", sent, forwards)
	}
	if marks {
		a.mark = token
	}
	if refuses {
		p.refused = append(p.refused, token)
	}
	if forwards {
		m.saw("rail " + string(how))
		p.attempt = &attempt{token: token}
		switch said := reference(p.key, "paid", paystore.OutcomeAcked); how {
		case rejects:
			said = reference(p.key, "refused", paystore.OutcomeRejected)
			fallthrough
		case acks:
			p.attempt.outcome, p.attempt.reference = said.Outcome, said.Reference
		case resets:
			p.attempt.outcome = paystore.OutcomeTimeout
		case silent:
		}
	}
}

// callRail goes away when the rail is silent, and leaves the attempt in flight.
func (m *machine) callRail(p *payout, token paystore.Token, how manner) error {
	ctx, goAway := context.WithCancel(m.t.Context())
	defer goAway()
	m.b.rail.behave(how, goAway)
	proxy := m.proxy
	if how == resets {
		// The one manner in which the deadline is waited for.
		proxy = m.hasty
	}
	_, err := proxy.Submit(ctx, p.id, token)
	return err
}

// ask asks the rail, which says what it is told to say.
func (m *machine) ask(p *payout, say rail.Answer, trouble error) {
	want, asked := done, false
	switch {
	case p.attempt == nil:
		want = notFound
	case p.attempt.outcome == "" || p.attempt.outcome == paystore.OutcomeTimeout:
		asked = true
		if trouble != nil {
			want = railError
		}
	}
	m.b.rail.say(say, trouble)
	got, err := m.proxy.Ask(m.t.Context(), p.id)
	m.judge("ask", want, err)
	if !asked {
		return
	}
	if p.attempt.outcome == "" && p.attempt.old {
		p.attempt.outcome = paystore.OutcomeTimeout
		m.saw("ask: gave it up")
	}
	if trouble == nil && (say.Outcome == paystore.OutcomeAcked || say.Outcome == paystore.OutcomeRejected) {
		p.attempt.outcome, p.attempt.reference = say.Outcome, say.Reference
		m.saw("ask: " + string(say.Outcome))
	}
	if got.Outcome != p.attempt.outcome {
		m.fail("ask: %+v, want %s", got, p.attempt.outcome)
	}
}

// late is the rail's answer to a request that nobody waits for any more. Where it
// says otherwise than the attempt does, the first stands and it is observed.
func (m *machine) late(p *payout, outcome paystore.Outcome) {
	said := reference(p.key, "late", outcome)
	observed := m.contradicted.Load()
	m.b.rail.answer(p.key, said)
	stands := p.attempt.outcome == paystore.OutcomeAcked || p.attempt.outcome == paystore.OutcomeRejected
	if !stands {
		p.attempt.outcome, p.attempt.reference = said.Outcome, said.Reference
	}
	err := eventually(m.t.Context(), "the late answer is heard", func(ctx context.Context) (heard bool, err error) {
		if stands {
			return m.contradicted.Load() == observed+1, nil
		}
		err = m.b.super.QueryRow(ctx, `SELECT coalesce(rail_reference = $2, false) FROM rail_submission WHERE payout_id = $1 AND outcome IS DISTINCT FROM 'FENCED'`,
			p.id, said.Reference).Scan(&heard)
		return heard, err
	})
	if err != nil {
		m.fail("%v", err)
	}
	if stands {
		m.saw("late: contradicted")
	} else {
		m.saw("late: heard")
	}
}

// haste is the forwarding deadline of the proxy whose rail's connection is cut.
const haste = 50 * time.Millisecond
