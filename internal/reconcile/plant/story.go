package plant

import (
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// kind is how the life of a payout went.
type kind int

const (
	plain        kind = iota // claimed, submitted, acknowledged, posted
	takenOver                // acknowledged under one token, posted under a later one
	fenced                   // the first holder paused and was refused at the rail
	reentered                // the same holder acquired again before it went on
	released                 // claimed, given back, claimed by another
	answeredLate             // timed out, and the rail said PAID when asked
	reaped                   // the holder's session lapsed after the posting
	revoked                  // the first holder was revoked before it did anything
	rejected                 // the rail refused
	refused                  // no funds: refused before the rail
	givenUp                  // by an operator, before any claim
	abandoned                // the rail's answer will never be known
)

// incidents are the kinds in their turn; the rest is plain.
var incidents = [...]kind{takenOver, fenced, reentered, released, answeredLate, reaped, revoked, rejected, refused, givenUp, abandoned}

// incidentsIn says how many of a hundred payouts meet with each incident.
const incidentsIn = 2

type claim struct {
	token int64
	by    string
	at    time.Time
}

type attempt struct {
	id           pgtype.UUID
	token        int64
	outcome      string // "" in flight
	reference    string
	at, resolved time.Time
}

type grant struct {
	token     int64
	by        string
	at, ended time.Time
	end       string // "" stands
}

type resolution struct {
	source, verdict, operator string
	at                        time.Time
}

// payout is one payout with everything that belongs to it in both databases.
type payout struct {
	id               pgtype.UUID
	index, account   int
	currency, shard  int
	amount           int64
	state            string
	created, updated time.Time
	attempts         int32
	claims           []claim
	tries            []attempt
	resolution       *resolution
	grants           []grant
	revokedAt        time.Time // of the first grant; zero: not
}

func (p *payout) posted() bool { return p.state == "POSTED" }

// held is the claim on the payout's row: the last one, unless it was given back.
func (p *payout) held() (token *int64, by *string) {
	if len(p.claims) == 0 || p.state == "PENDING" {
		return nil, nil
	}
	last := p.claims[len(p.claims)-1]
	return &last.token, &last.by
}

// mark is the highest token that the rail accepted, 0 for none.
func (p *payout) mark() int64 {
	var highest int64
	for _, t := range p.tries {
		if t.outcome != "FENCED" {
			highest = max(highest, t.token)
		}
	}
	return highest
}

func (h *history) kindOf(account, k int) kind {
	if k >= h.payoutsOf(account)-plainEnd {
		return plain
	}
	n := int(h.draw(drawKind, h.nth(account, k)) % 100 / incidentsIn)
	if n < len(incidents) {
		return incidents[n]
	}
	return plain
}

// begin is a payout that was only created.
func (h *history) begin(index, account int, at time.Time) *payout {
	return &payout{
		id: h.rising(drawPayout, index), index: index, account: account, currency: h.currency(account),
		shard: int(h.draw(drawWorker, index)>>8) % shards, amount: h.amount(index), state: "PENDING", created: at, updated: at,
	}
}

// hands are the worker of a step and another one, who had it before.
func (h *history) hands(index int) (by, before string) {
	n := int(h.draw(drawWorker, index) % uint64(len(h.workers)))
	return h.workers[n], h.workers[(n+5)%len(h.workers)]
}

// The builders below count from the payout's creation.

func (p *payout) grant(token int64, by string, from, to time.Duration, end string) {
	p.grants = append(p.grants, grant{token, by, p.created.Add(from), p.created.Add(to), end})
}

func (p *payout) claim(token int64, by string, after time.Duration) {
	p.claims = append(p.claims, claim{token, by, p.created.Add(after)})
	p.state, p.updated = "CLAIMED", p.created.Add(after)
}

func (h *history) try(p *payout, token int64, outcome string, after, answer time.Duration) {
	t := attempt{id: h.rising(drawAttempt, p.index), token: token, outcome: outcome, at: p.created.Add(after), resolved: p.created.Add(answer)}
	switch outcome {
	case "ACKED":
		t.reference = reference(p.index)
	case "FENCED":
		t.id = h.rising(drawFenced, p.index)
	}
	p.tries = append(p.tries, t)
	p.attempts = 1
}

func (p *payout) end(state string, after time.Duration) {
	p.state, p.updated = state, p.created.Add(after)
}

const second = time.Second

// past is the payout of a step. All of it happens inside the step.
func (h *history) past(index int) *payout {
	account := index % h.Accounts
	p := h.begin(index, account, h.at(index))
	token, first := h.token(index), h.token(index)-1
	by, before := h.hands(index)
	switch what := h.kindOf(account, index/h.Accounts); what {
	case plain, reaped:
		end := "released"
		if what == reaped {
			end = "reaped"
		}
		p.grant(token, by, second/2, 5*second, end)
		p.claim(token, by, 1*second)
		h.try(p, token, "ACKED", 2*second, 3*second)
		p.end("POSTED", 4*second)
	case takenOver:
		p.grant(first, before, second/2, 5*second, "taken_over")
		p.claim(first, before, 1*second)
		h.try(p, first, "ACKED", 2*second, 3*second)
		p.grant(token, by, 5*second, 8*second, "released")
		p.claim(token, by, 6*second)
		p.end("POSTED", 7*second)
	case fenced, revoked:
		end := "taken_over"
		if what == revoked {
			end, p.revokedAt = "revoked", p.created.Add(3*second)
		}
		p.grant(first, before, second/2, 3*second, end)
		p.claim(first, before, 1*second)
		p.grant(token, by, 3*second, 8*second, "released")
		p.claim(token, by, 4*second)
		h.try(p, token, "ACKED", 5*second, 6*second)
		if what == fenced {
			h.try(p, first, "FENCED", 6*second, 6*second)
		}
		p.end("POSTED", 7*second)
	case reentered:
		p.grant(first, by, second/2, 2*second, "re_entered")
		p.claim(first, by, 1*second)
		p.grant(token, by, 2*second, 6*second, "released")
		p.claim(token, by, 3*second)
		h.try(p, token, "ACKED", 3*second, 4*second)
		p.end("POSTED", 5*second)
	case released:
		p.grant(first, before, second/2, 3*second, "released")
		p.claim(first, before, 1*second)
		p.grant(token, by, 4*second, 9*second, "expired")
		p.claim(token, by, 5*second)
		h.try(p, token, "ACKED", 6*second, 7*second)
		p.end("POSTED", 8*second)
	default:
		h.unpaid(p, what, token, by)
	}
	return p
}

// unpaid are the lives that went by way of an operator, or ended without a posting.
func (h *history) unpaid(p *payout, what kind, token int64, by string) {
	if what == givenUp {
		p.end("FAILED", 5*second)
		return
	}
	p.grant(token, by, second/2, 9*second, "released")
	p.claim(token, by, 1*second)
	switch what {
	case answeredLate:
		h.try(p, token, "ACKED", 2*second, 6*second)
		p.resolution = &resolution{"rail", "PAID", by, p.created.Add(7 * second)}
		p.end("POSTED", 8*second)
	case rejected:
		h.try(p, token, "REJECTED", 2*second, 3*second)
		p.end("FAILED", 4*second)
	case abandoned:
		h.try(p, token, "TIMEOUT", 2*second, 6*second)
		p.resolution = &resolution{"operator", "UNDETERMINED", operator, p.created.Add(7 * second)}
		p.end("ABANDONED", 8*second)
	default: // refused
		p.end("FAILED", 2*second)
	}
}

// openStates are the states of K-5 that are not final.
var openStates = [...]string{"PENDING", "CLAIMED", "RAIL_SUBMITTED", "RAIL_ACKED", "RAIL_AMBIGUOUS"}

// open is the n-th open payout, of account n, begun a minute ago: work in flight.
func (h *history) open(n int) *payout {
	index := h.Payouts + h.Accounts + n
	p := h.begin(index, n, h.now.Add(-time.Minute))
	token, first := h.token(index), h.token(index)-1
	by, before := h.hands(index)
	state := openStates[n%len(openStates)]
	// Every other one was in other hands before; a PENDING one was given back.
	if n/len(openStates)%2 == 1 {
		end := "taken_over"
		if state == "PENDING" {
			end = "released"
		}
		p.grant(first, before, second, 5*second, end)
		p.claim(first, before, 2*second)
	}
	if state != "PENDING" {
		p.grant(token, by, 5*second, 0, "")
		p.claim(token, by, 6*second)
	}
	switch state {
	case "RAIL_SUBMITTED":
		h.try(p, token, "", 8*second, 0)
	case "RAIL_ACKED":
		h.try(p, token, "ACKED", 8*second, 9*second)
	case "RAIL_AMBIGUOUS":
		h.try(p, token, "TIMEOUT", 8*second, 20*second)
	}
	p.end(state, 21*second)
	return p
}

// intervention is what an operator did to a raised account after its last payout:
// revoked a holder that had written nothing, and raised fence and mark (K-3.2).
type intervention struct {
	grant    grant
	fence    int64
	raisedAt time.Time
}

func (h *history) intervention(account int) intervention {
	index := h.Payouts + account
	at := h.at(index)
	by, _ := h.hands(index)
	return intervention{
		grant:    grant{h.token(index), by, at, at.Add(3 * second), "revoked"},
		fence:    h.token(index) + 1,
		raisedAt: at.Add(4 * second),
	}
}

// sums is what the payouts of an account add up to.
type sums struct {
	debits, fence, mark int64
	updated             time.Time
}

func (h *history) sums(account int) sums {
	s := sums{updated: h.at(0)}
	for k := range h.payoutsOf(account) {
		p := h.past(h.nth(account, k))
		s.mark = max(s.mark, p.mark())
		if p.posted() {
			token, _ := p.held()
			s.debits, s.fence, s.updated = s.debits+p.amount, *token, p.updated
		}
	}
	return s
}

// opening is what the account held before: enough for everything, and some more.
func (h *history) opening(account int, s sums) int64 {
	return s.debits + 5_000_000 + int64(h.draw(drawOpening, account)%1_000_000)
}
