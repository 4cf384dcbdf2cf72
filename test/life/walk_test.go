package life_test

import (
	"fmt"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/paystore/posting"
	"github.com/dlockctl/dlockctl/internal/paystore/rail"
)

// walk draws calls. rapid likes what comes early in the alphabet, and some stand more
// than once, so that payouts get on.
func (m *machine) walk(r *rapid.T) {
	r.Repeat(map[string]func(*rapid.T){
		"":                 m.compare,
		"a worker goes on": m.goOn, "a worker goes on again": m.goOn, "a worker goes on once more": m.goOn, "a worker goes on and on": m.goOn,
		"create": m.drawCreate, "claim": m.drawClaim, "take over": m.drawTakeOver, "finish the account": m.takeOverAll,
		"release": m.under(m.release), "check funds": m.under(m.checkFunds), "submit": m.under(m.submit), "reject": m.under(m.reject),
		"settle": m.under(m.settle), "post": m.under(m.post), "rail submit": m.drawRailSubmit,
		"question the rail": m.drawAsk, "the rail answers late": m.drawLate, "time passes": m.drawOld, "resolve": m.drawResolve, "give up": m.drawGiveUp,
		"raise": m.drawRaise, "pay two at once": m.payTwo, "take the rail's word": m.payByWord,
	})
}

func (m *machine) drawAccount(r *rapid.T) *account {
	return rapid.SampledFrom(m.accounts).Draw(r, "account")
}

// drawPayout is any, and more often one that is open; it skips the action when there
// is none.
func (m *machine) drawPayout(r *rapid.T) *payout {
	var from []int
	for i, p := range m.payouts {
		from = append(from, i)
		if p.open() {
			from = append(from, i, i)
		}
	}
	if len(from) == 0 {
		r.Skip("no payout yet")
	}
	return m.payouts[rapid.SampledFrom(from).Draw(r, "payout")]
}

// drawHolder is whoever claimed the payout, whoever has the lock, or any other who
// ever had it and does not know better.
func (p *payout) drawHolder(r *rapid.T) grant {
	switch who := rapid.SampledFrom([]string{"claimant", "newest", "any"}).Draw(r, "who"); {
	case who == "claimant" && p.claim != 0:
		return grant{p.by, p.claim}
	case who == "any":
		return rapid.SampledFrom(p.account.grants).Draw(r, "holder")
	default:
		return p.account.newest()
	}
}

// under is an action of a holder on a payout.
func (m *machine) under(verb func(*payout, paystore.Token)) func(*rapid.T) {
	return func(r *rapid.T) {
		p := m.drawPayout(r)
		verb(p, p.drawHolder(r).token)
	}
}

func (m *machine) drawCreate(r *rapid.T) {
	a := m.drawAccount(r)
	params := posting.CreateParams{
		AccountID: a.id, Currency: a.currency, IdempotencyKey: uuid.NewString(),
		AmountMinor: paystore.Minor(rapid.IntRange(1, 90).Draw(r, "amount")),
	}
	switch what := rapid.SampledFrom([]string{"good", "good", "good", "again", "zero", "other currency", "no account"}).Draw(r, "what"); {
	case what == "again" && len(m.payouts) > 0:
		params.IdempotencyKey = m.drawPayout(r).key
		if same := m.payoutOf(params.IdempotencyKey); rapid.Bool().Draw(r, "same content") {
			params.AccountID, params.Currency, params.AmountMinor = same.account.id, same.account.currency, same.amount
		}
	case what == "zero":
		params.AmountMinor = 0
	case what == "other currency":
		params.Currency = "GBP"
	case what == "no account":
		params.AccountID = uuid.NewString()
	}
	m.create(params)
}

func (m *machine) payoutOf(key string) *payout {
	for _, p := range m.payouts {
		if p.key == key {
			return p
		}
	}
	return nil
}

func (m *machine) drawClaim(r *rapid.T) {
	p := m.drawPayout(r)
	g := p.drawHolder(r)
	if rapid.IntRange(0, 4).Draw(r, "another name") == 0 {
		g.owner = "impostor"
	}
	m.claim(p, g.owner, g.token)
}

// drawTakeOver is what the next holder does.
func (m *machine) drawTakeOver(r *rapid.T) {
	p := m.drawPayout(r)
	g := m.grant(p.account)
	m.claim(p, g.owner, g.token)
}

// takeOverAll is what a holder does before it posts (K-5.2): the account's payouts, in
// whatever state, under one token, which can post only one of them (K-4.2).
func (m *machine) takeOverAll(r *rapid.T) {
	a := m.drawAccount(r)
	g, except := m.grant(a), ""
	if len(m.payouts) > 0 && rapid.Bool().Draw(r, "but one") {
		except = m.drawPayout(r).id
	}
	m.openOnAccount(a, except)
	for _, p := range m.payouts {
		if p.account == a && p.open() && p.state != paystore.Pending && p.id != except {
			m.claim(p, g.owner, g.token)
		}
	}
	for _, p := range m.payouts {
		if p.account == a && p.state == paystore.RailAcked {
			m.post(p, g.token)
		}
	}
}

func (m *machine) drawRailSubmit(r *rapid.T) {
	p := m.drawPayout(r)
	m.railSubmit(p, p.drawHolder(r).token, drawManner(r))
}

func drawManner(r *rapid.T) manner {
	return rapid.SampledFrom([]manner{acks, rejects, silent, resets, silent}).Draw(r, "the rail")
}

// drawAsk asks more than the truth: nobody relies on the rail's consistency.
func (m *machine) drawAsk(r *rapid.T) {
	p := m.drawPayout(r)
	if p.attempt == nil && rapid.IntRange(0, 3).Draw(r, "all the same") > 0 {
		return
	}
	outcome := rapid.SampledFrom([]paystore.Outcome{paystore.OutcomeAcked, paystore.OutcomeRejected, rail.NotFound, "", "trouble"}).Draw(r, "says")
	if outcome == "trouble" {
		m.ask(p, rail.Answer{}, errRail)
		return
	}
	m.ask(p, reference(p.key, "asked", outcome), nil)
}

// waiting are the payouts whose rail has not answered.
func (m *machine) waiting() (waiting []int) {
	for i, p := range m.payouts {
		if m.b.rail.waiting(p.key) {
			waiting = append(waiting, i)
		}
	}
	return waiting
}

func (m *machine) drawLate(r *rapid.T) {
	waiting := m.waiting()
	if len(waiting) == 0 {
		r.Skip("no request is open")
	}
	p := m.payouts[rapid.SampledFrom(waiting).Draw(r, "payout")]
	m.late(p, rapid.SampledFrom([]paystore.Outcome{paystore.OutcomeAcked, paystore.OutcomeRejected}).Draw(r, "says"))
}

// drawOld lets the deadline of an attempt in flight pass.
func (m *machine) drawOld(r *rapid.T) {
	p := m.drawPayout(r)
	if p.attempt == nil || p.attempt.outcome != "" {
		r.Skip("nothing is in flight")
	}
	m.old(p)
}

func (m *machine) old(p *payout) {
	if err := m.b.makeOld(m.t.Context(), p.id); err != nil {
		m.fail("%v", err)
	}
	p.attempt.old = true
}

func (m *machine) drawResolve(r *rapid.T) {
	p := m.drawPayout(r)
	m.resolve(p, p.drawHolder(r).token, drawVerdict(r))
}

func drawVerdict(r *rapid.T) paystore.Verdict {
	return rapid.SampledFrom(paystore.Verdicts()).Draw(r, "verdict")
}

func (m *machine) drawGiveUp(r *rapid.T) {
	p := m.drawPayout(r)
	token := p.claim
	if rapid.IntRange(0, 2).Draw(r, "another token") == 2 {
		token = p.drawHolder(r).token
	}
	m.giveUp(p, token)
}

// payTwo brings two payouts of an account to their acknowledgement, each under a grant
// of its own, and would post both under one (K-4.2).
func (m *machine) payTwo(r *rapid.T) {
	a := m.drawAccount(r)
	for range 2 {
		m.create(posting.CreateParams{AccountID: a.id, Currency: a.currency, IdempotencyKey: uuid.NewString(), AmountMinor: 1})
		p, g := m.payouts[len(m.payouts)-1], m.grant(a)
		m.claim(p, g.owner, g.token)
		m.submit(p, g.token)
		m.railSubmit(p, g.token, acks)
		m.settle(p, g.token)
	}
	g := m.grant(a)
	for _, p := range m.payouts[len(m.payouts)-2:] {
		m.claim(p, g.owner, g.token)
		m.post(p, g.token)
	}
}

// payByWord brings a payout to its acknowledgement by the rail's record, with no attempt
// of its own (K-7.9), and would send it to the rail after that.
func (m *machine) payByWord(r *rapid.T) {
	a := m.drawAccount(r)
	m.create(posting.CreateParams{AccountID: a.id, Currency: a.currency, IdempotencyKey: uuid.NewString(), AmountMinor: 1})
	p, g := m.payouts[len(m.payouts)-1], m.grant(a)
	m.claim(p, g.owner, g.token)
	m.submit(p, g.token)
	m.resolve(p, g.token, paystore.VerdictPaid)
	m.railSubmit(p, g.token, acks)
}

// drawRaise raises fence or mark to a token drawn for the account, nobody's grant, or
// to an old one again.
func (m *machine) drawRaise(r *rapid.T) {
	a := m.drawAccount(r)
	var to paystore.Token
	if rapid.Bool().Draw(r, "an old one") {
		to = rapid.SampledFrom(a.grants).Draw(r, "token").token
	} else {
		m.last++
		to = m.last
	}
	if rapid.Bool().Draw(r, "the mark") {
		m.raiseMark(a, to)
	} else {
		m.raiseFence(a, to)
	}
}

// goOn is what a worker does next. With a token that is spent it takes the lock again
// (K-4.2), unless it does not know, or takes the one it has for good.
func (m *machine) goOn(r *rapid.T) {
	p := m.drawPayout(r)
	spent := p.claim <= p.account.fence || p.attempt == nil && p.claim <= p.account.mark
	if p.open() && (p.claim == 0 || spent && rapid.IntRange(0, 3).Draw(r, "knows it") > 0) {
		g := p.account.newest()
		if p.highest() >= g.token || rapid.Bool().Draw(r, "takes the lock") {
			g = m.grant(p.account)
		}
		m.claim(p, g.owner, g.token)
		return
	}
	switch token := p.claim; p.state {
	case paystore.Claimed:
		m.checkFunds(p, token) // and does not listen: the account is asked again
		m.submit(p, token)
	case paystore.RailSubmitted:
		switch {
		case p.attempt == nil:
			m.railSubmit(p, token, drawManner(r))
		case p.attempt.outcome != "":
			m.settle(p, token)
		default:
			if rapid.Bool().Draw(r, "loses patience") {
				m.reject(p, token) // what is in flight may have been paid (K-5.3)
			}
			m.old(p)
			m.ask(p, rail.Answer{Outcome: rail.NotFound}, nil)
		}
	case paystore.RailAmbiguous:
		m.resolve(p, token, drawVerdict(r))
	case paystore.RailAcked:
		m.post(p, token)
	default:
		r.Skip(fmt.Sprintf("payout %s is %s", p.id, p.state))
	}
}
