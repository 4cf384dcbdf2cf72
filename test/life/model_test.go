package life_test

import (
	"fmt"
	"slices"

	"github.com/dlockctl/dlockctl/internal/paystore"
)

// account is one as the contract has it.
type account struct {
	id, currency     string
	opening, balance paystore.Minor
	fence, mark      paystore.Token
	grants           []grant
}

// grant is a holder of the account's lock, for as long as no later one was granted;
// stale ones are kept, and act all the same.
type grant struct {
	owner string
	token paystore.Token
}

func (a *account) newest() grant { return a.grants[len(a.grants)-1] }

// payout is one as the contract has it.
type payout struct {
	id, key string
	account *account
	amount  paystore.Minor
	state   paystore.State
	by      string
	claim   paystore.Token
	claims  []grant
	submits int32
	attempt *attempt
	// refused are the tokens of its FENCED attempts.
	refused     []paystore.Token
	resolutions []string
	// clearing is the account that its CREDIT leg stands on, when it is posted.
	clearing string
}

// attempt is the one that holds the payout's slot.
type attempt struct {
	token     paystore.Token
	outcome   paystore.Outcome
	reference string
	old       bool // its forwarding deadline has passed
}

func (p *payout) open() bool { return !p.state.Final() }

// highest is the highest claim that the payout ever had (K-5.2).
func (p *payout) highest() (highest paystore.Token) {
	for _, c := range p.claims {
		highest = max(highest, c.token)
	}
	return highest
}

func (p *payout) claimedOnce(token paystore.Token) bool {
	return slices.ContainsFunc(p.claims, func(c grant) bool { return c.token == token })
}

func (p *payout) outcome() paystore.Outcome {
	if p.attempt == nil {
		return ""
	}
	return p.attempt.outcome
}

// mine is whether token may do its own work on the payout (K-5.1): done, or why not.
func (p *payout) mine(token paystore.Token) string {
	switch highest := p.highest(); {
	case highest > token:
		return fenced(paystore.ResourcePayout, token, highest)
	case p.claim == token:
		return done
	case p.claim == 0 || p.state.Final():
		return inState(p.state)
	default:
		return claimed(p.by, p.claim)
	}
}

// arrow is one's own work from a state to another: done, and whether it moves the
// payout or was done before.
func (p *payout) arrow(token paystore.Token, from, to paystore.State) (answer string, moves bool) {
	switch {
	case p.state == from && p.claim == token:
		return done, true
	case p.state == to && p.claim == token:
		return done, false
	}
	if refused := p.mine(token); refused != done {
		return refused, false
	}
	return inState(p.state), false
}

// leaves is whether the attempt allows what the evidence says (K-5.3).
func (p *payout) leaves(verdict paystore.Verdict) bool {
	switch outcome := p.outcome(); verdict {
	case paystore.VerdictPaid:
		return true
	case paystore.VerdictRejected:
		return outcome != paystore.OutcomeAcked
	case paystore.VerdictNotFound:
		return outcome != paystore.OutcomeAcked
	case paystore.VerdictUndetermined:
		return outcome == paystore.OutcomeTimeout
	default:
		return false
	}
}

// shown is a payout in words, as it is compared with paydb.
type shown struct {
	State       paystore.State
	By          string
	Claim       paystore.Token
	Submits     int32
	Claims      []string
	Attempts    []string
	Legs        []string
	Resolutions []string
}

func (p *payout) show() shown {
	s := shown{State: p.state, By: p.by, Claim: p.claim, Submits: p.submits, Resolutions: p.resolutions}
	for _, c := range p.claims {
		s.Claims = append(s.Claims, fmt.Sprintf("%s %s", c.token, c.owner))
	}
	for _, token := range p.refused {
		s.Attempts = append(s.Attempts, fmt.Sprintf("%s FENCED", token))
	}
	if a := p.attempt; a != nil {
		line := fmt.Sprintf("%s %s", a.token, a.outcome)
		if a.outcome == "" {
			line = fmt.Sprintf("%s in flight", a.token)
		}
		if a.reference != "" {
			line += " " + a.reference
		}
		s.Attempts = append(s.Attempts, line)
	}
	if p.state == paystore.Posted {
		s.Legs = []string{
			fmt.Sprintf("DEBIT %s under %s on %s", p.amount, p.claim, p.account.id),
			fmt.Sprintf("CREDIT %s under %s on %s", p.amount, p.claim, p.clearing),
		}
	}
	return s.sorted()
}

func (s shown) sorted() shown {
	slices.Sort(s.Claims)
	slices.Sort(s.Attempts)
	slices.Sort(s.Legs)
	return s
}
