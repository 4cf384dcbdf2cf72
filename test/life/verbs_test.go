package life_test

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/paystore/posting"
)

// Every method here calls one verb, says before what the contract answers, and does
// to the model what the verb does to paydb.

// create makes a payout; one that stands under the key answers for it.
func (m *machine) create(a posting.CreateParams) {
	want, stands := m.created(a)
	got, created, err := m.store.Create(m.t.Context(), a)
	m.judge("create", want, err)
	switch {
	case want != done:
	case stands != nil:
		if created || got.PayoutID != stands.id {
			m.fail("create of %s again: %+v, %t", stands.id, got, created)
		}
		m.saw("create: stands")
	default:
		if !created {
			m.fail("create: %+v stood already", got)
		}
		m.payouts = append(m.payouts, &payout{id: got.PayoutID, key: a.IdempotencyKey, account: m.accountOf(a.AccountID), amount: a.AmountMinor, state: paystore.Pending})
	}
}

func (m *machine) created(a posting.CreateParams) (answer string, stands *payout) {
	payer := m.accountOf(a.AccountID)
	if i := slices.IndexFunc(m.payouts, func(p *payout) bool { return p.key == a.IdempotencyKey }); i >= 0 {
		stands = m.payouts[i]
	}
	switch {
	case a.AmountMinor <= 0:
		return invalid, nil
	case payer != nil && payer.currency != a.Currency:
		return "rejected: currency_mismatch", nil
	case stands == nil && payer == nil:
		return "rejected: no_account", nil
	case stands == nil:
		return done, nil
	case stands.account != payer:
		return "conflict: account_id", stands
	case stands.amount != a.AmountMinor:
		return "conflict: amount_minor", stands
	default:
		return done, stands
	}
}

func (m *machine) claim(p *payout, by string, token paystore.Token) {
	want, claims := done, true
	switch highest := p.highest(); {
	case p.claim == token && p.open() && p.by != by:
		want = claimed(p.by, token)
	case p.claim == token && p.open():
		claims = false
	case !p.open():
		want = inState(p.state)
	case highest >= token:
		want = fenced(paystore.ResourcePayout, token, highest)
	}
	got, err := m.store.Claim(m.t.Context(), p.id, by, token)
	m.judge("claim", want, err)
	if want != done || !claims {
		return
	}
	if p.state == paystore.Pending {
		p.state = paystore.Claimed
	} else {
		m.saw("take over: " + string(p.state))
	}
	p.by, p.claim, p.claims = by, token, append(p.claims, grant{by, token})
	if got.State != p.state || got.ClaimToken != token {
		m.fail("claim: %+v, want %s under %s", got, p.state, token)
	}
}

func (m *machine) release(p *payout, token paystore.Token) {
	want, mine := done, p.claim == token
	if mine && p.state != paystore.Claimed && p.open() {
		want = inState(p.state)
	}
	released, err := m.store.Release(m.t.Context(), p.id, token)
	m.judge("release", want, err)
	if releases := mine && p.state == paystore.Claimed; released != releases {
		m.fail("released %t, want %t", released, releases)
	} else if releases {
		p.state, p.by, p.claim = paystore.Pending, "", 0
		m.saw("released")
	}
}

func (m *machine) checkFunds(p *payout, token paystore.Token) {
	want := p.mine(token)
	switch {
	case want != done:
	case p.state != paystore.Claimed:
		want = inState(p.state)
	default:
		want = p.payable(token)
	}
	m.judge("check funds", want, m.store.CheckFunds(m.t.Context(), p.id, token))
}

// payable is whether the account can pay under the token (K-4.1 (a)).
func (p *payout) payable(token paystore.Token) string {
	switch {
	case p.account.fence >= token:
		return fenced(paystore.ResourceAccount, token, p.account.fence)
	case p.account.balance < p.amount:
		return noFunds
	default:
		return done
	}
}

func (m *machine) submit(p *payout, token paystore.Token) {
	want, moves := p.arrow(token, paystore.Claimed, paystore.RailSubmitted)
	_, err := m.store.Submit(m.t.Context(), p.id, token)
	m.judge("submit", want, err)
	if moves {
		p.state = paystore.RailSubmitted
		p.submits++
	}
}

func (m *machine) reject(p *payout, token paystore.Token) {
	want, moves := p.mine(token), false
	if want == done {
		switch p.state {
		case paystore.Claimed, paystore.RailAcked:
			moves = true
		case paystore.RailSubmitted:
			if moves = p.attempt == nil || p.attempt.outcome == paystore.OutcomeRejected; !moves {
				want = noEvidence
			}
		case paystore.Failed:
		default:
			want = inState(p.state)
		}
	}
	_, err := m.store.Reject(m.t.Context(), p.id, token)
	m.judge("reject", want, err)
	if moves {
		p.state = paystore.Failed
	}
}

func (m *machine) settle(p *payout, token paystore.Token) {
	to, said := map[paystore.Outcome]paystore.State{
		paystore.OutcomeAcked: paystore.RailAcked, paystore.OutcomeRejected: paystore.Failed, paystore.OutcomeTimeout: paystore.RailAmbiguous,
	}[p.outcome()]
	want, moves := p.mine(token), false
	switch {
	case want != done:
	case said:
		want, moves = p.arrow(token, paystore.RailSubmitted, to)
	case p.state != paystore.RailSubmitted:
		want = inState(p.state)
	default:
		want = noEvidence
	}
	_, err := m.store.Settle(m.t.Context(), p.id, token)
	m.judge("settle", want, err)
	if moves {
		p.state = to
	}
}

func (m *machine) post(p *payout, token paystore.Token) {
	want, before := done, p.state == paystore.Posted
	switch {
	case before:
	case p.claim > token:
		want = fenced(paystore.ResourcePayout, token, p.claim)
	case p.state != paystore.RailAcked:
		want = inState(p.state)
	case p.claim < token:
		want = claimed(p.by, p.claim)
	default:
		want = p.payable(token)
	}
	got, err := m.store.Post(m.t.Context(), p.id, token)
	m.judge("post", want, err)
	if want != done {
		return
	}
	if got.AlreadyPosted != before || got.Token != p.claim {
		m.fail("posted %+v, before %t under %s", got, before, p.claim)
	}
	if before {
		m.saw("post: posted before")
		return
	}
	p.state, p.clearing = paystore.Posted, got.ClearingAccountID
	p.account.balance -= p.amount
	p.account.fence = token
	m.clearing[got.ClearingAccountID] += p.amount
}

func (m *machine) resolve(p *payout, token paystore.Token, verdict paystore.Verdict) {
	to := map[paystore.Verdict]paystore.State{
		paystore.VerdictPaid: paystore.RailAcked, paystore.VerdictRejected: paystore.Failed,
		paystore.VerdictNotFound: paystore.Failed, paystore.VerdictUndetermined: paystore.Abandoned,
	}[verdict]
	from := paystore.RailAmbiguous
	if p.state == paystore.RailSubmitted && to != paystore.Abandoned && (p.attempt == nil || p.attempt.outcome == paystore.OutcomeRejected) {
		from = paystore.RailSubmitted
	}
	want, moves := p.arrow(token, from, to)
	inFlight := p.state == paystore.RailSubmitted && p.attempt != nil && p.attempt.outcome == ""
	if inFlight || moves && !p.leaves(verdict) {
		want, moves = noEvidence, false
	}
	_, err := m.store.Resolve(m.t.Context(), resolution(p.id, token, verdict))
	m.judge("resolve", want, err)
	if moves {
		p.state = to
		p.resolutions = append(p.resolutions, "rail "+string(verdict))
		m.saw("resolve: " + string(verdict))
	}
}

func resolution(id string, token paystore.Token, verdict paystore.Verdict) posting.ResolveParams {
	return posting.ResolveParams{
		PayoutID: id, Token: token, Source: paystore.SourceRail, Verdict: verdict,
		Evidence: json.RawMessage(fmt.Sprintf(`{"asked under": %d}`, token)), Operator: "erin", Reason: "asked the rail",
	}
}

// giveUp is under no token where nobody has claimed the payout.
func (m *machine) giveUp(p *payout, token paystore.Token) {
	var want string
	var moves bool
	switch {
	case token != 0:
		want, moves = p.arrow(token, paystore.Claimed, paystore.Failed)
	case p.state == paystore.Pending:
		want, moves = done, true
	case p.state == paystore.Failed:
		want = done
	case p.state == paystore.Claimed:
		want = claimed(p.by, p.claim)
	default:
		want = inState(p.state)
	}
	_, err := m.store.GiveUp(m.t.Context(), p.id, token, "erin", "not wanted")
	m.judge("give up", want, err)
	if moves {
		m.saw("give up: " + string(p.state))
		p.state = paystore.Failed
		p.resolutions = append(p.resolutions, "operator UNDETERMINED")
	}
}

func (m *machine) raiseFence(a *account, to paystore.Token) {
	from, raised, err := m.store.RaiseFence(m.t.Context(), a.id, to, "erin", "revoked")
	m.judge("raise fence", done, err)
	if from != a.fence || raised != (to > a.fence) {
		m.fail("fence raised %t from %s, stood at %s", raised, from, a.fence)
	}
	a.fence = max(a.fence, to)
}

func (m *machine) raiseMark(a *account, to paystore.Token) {
	from, raised, err := m.proxy.RaiseMark(m.t.Context(), a.id, to)
	m.judge("raise mark", done, err)
	if from != a.mark || raised != (to > a.mark) {
		m.fail("mark raised %t from %s, stood at %s", raised, from, a.mark)
	}
	a.mark = max(a.mark, to)
}

func (m *machine) openOnAccount(a *account, except string) {
	var want, got []string
	for _, p := range m.payouts {
		if p.account == a && p.open() && p.state != paystore.Pending && p.id != except {
			want = append(want, p.id)
		}
	}
	open, err := m.store.OpenOnAccount(m.t.Context(), a.id, except, nil, posting.MostListed)
	m.judge("open on account", done, err)
	for _, p := range open {
		got = append(got, p.PayoutID)
	}
	if !slices.Equal(want, got) {
		m.fail("open on account: %v, want %v", got, want)
	}
}
