package locktest

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// never is later than any time of a history.
const never = math.MaxInt64 / 4

// Rules say in which respects a backend's fenced mutex differs.
type Rules struct {
	// Timed: answers carry the backend's own times, and these decide expiry.
	// Without it a lease may have lapsed as soon as its holder's trust is over.
	Timed bool
	// LapsedGone: a lapsed grant answers as if it were gone. Otherwise its row
	// stands, and its own token may still release or revoke it.
	LapsedGone bool
	// Tolerance is how long past its end a lease still counts as held.
	Tolerance time.Duration
	// GlobalTokens: tokens are unique and ordered over all keys.
	GlobalTokens bool
	// Ownerless: no answer names an owner.
	Ownerless bool
}

// RulesOf are the rules that a backend's capabilities declare.
func RulesOf(c lockstore.Capabilities) Rules {
	return Rules{Timed: c.OwnTTL, LapsedGone: !c.OwnTTL || c.Tolerance > 0, Tolerance: c.Tolerance, GlobalTokens: c.GlobalTokens, Ownerless: c.Ownerless}
}

// state is one key of the fenced mutex. It is comparable: the checker asks
// whether it has been here before.
type state struct {
	// row: there is a grant, perhaps a lapsed one.
	row     bool
	owner   string
	session lockstore.SessionID
	// token is the grant's; 0 when its answer was lost and nobody has seen it
	// since, and then it is at least high.
	token lockstore.Token
	// high is the highest token the key has had for certain.
	high lockstore.Token
	// The lease's end lies between these; one moment unless an answer was lost.
	earliestEnd, latestEnd int64
	// trust is how long, by the test's clock, the holder relies on it.
	trust int64
	// closed: the history is over, and what was lost may as well never happen.
	closed bool
}

// op is an operation with what other operations tell of its moment on the
// backend's clock: not before the clock that somebody had read when it began,
// not after the clock of whoever began when it had ended.
type op struct {
	Op
	earliest, latest int64
	closing          bool
}

// model is the fenced mutex of one key as a sequential machine.
func model(rules Rules) porcupine.Model {
	m := mutex{tolerance: rules.Tolerance.Microseconds(), timed: rules.Timed, lapsedGone: rules.LapsedGone, ownerless: rules.Ownerless}
	return porcupine.Model{
		Partition: byKey,
		Init:      func() any { return state{} },
		Step: func(s, input, _ any) (bool, any) {
			next, ok := m.step(s.(state), input.(op))
			return ok, next
		},
		DescribeOperation: func(input, _ any) string { return input.(op).String() },
		DescribeState:     func(s any) string { return fmt.Sprintf("%+v", s) },
	}
}

// byKey gives each key a history of its own, ended by an operation that is
// called when all others have returned: what was lost and never seen to be done
// comes after it.
func byKey(history []porcupine.Operation) [][]porcupine.Operation {
	keys := make(map[string][]porcupine.Operation)
	var end int64
	for _, o := range history {
		end = max(end, o.Return)
		key := o.Input.(op).Key
		keys[key] = append(keys[key], o)
	}
	var parts [][]porcupine.Operation
	for _, part := range keys {
		for i := range part {
			if part[i].Input.(op).Result == Unknown {
				part[i].Return = end + 3
			}
		}
		parts = append(parts, append(part, porcupine.Operation{Input: op{closing: true}, Call: end + 1, Return: end + 2}))
	}
	slices.SortFunc(parts, func(a, b []porcupine.Operation) int { return cmp.Compare(len(b), len(a)) })
	return parts
}

type mutex struct {
	timed, lapsedGone, ownerless bool
	tolerance                    int64
}

// step tells whether the answer is possible in this state, and what comes of it.
// A lost one changes something or is not done yet; when the history is closed it
// need not be done any more.
func (m mutex) step(s state, o op) (state, bool) {
	switch {
	case o.closing:
		s.closed = true
		return s, true
	case o.Result == Unknown && s.closed:
		return s, true
	case o.Result == Failed:
		return s, true
	}
	if m.ownerless {
		o.Owner = ""
	}
	switch o.Kind {
	case Acquire:
		return m.acquire(s, o)
	case Renew:
		return m.renew(s, o)
	case Release:
		return m.release(s, o)
	case Revoke:
		return m.revoke(s, o)
	case Show:
		return m.show(s, o)
	}
	return s, false
}

func (m mutex) acquire(s state, o op) (state, bool) {
	own := s.row && s.owner == o.Owner && s.session == o.Session && o.Session != ""
	switch o.Result {
	case Held:
		return s, s.row && !own && m.maybeLive(s, o)
	case Unknown:
		if s.row && !own {
			o.earliest = max(o.earliest, s.earliestEnd+m.tolerance)
		}
		end := o.earliest + o.TTL
		if own {
			end = max(end, s.earliestEnd)
		}
		return state{row: true, owner: o.Owner, session: o.Session, high: s.high + 1, earliestEnd: end, latestEnd: never, closed: s.closed}, true
	case OK:
		a := o.Answer
		if a.Token <= s.high || a.Token > lockstore.MaxToken || a.Owner != o.Owner || a.Session != o.Session {
			return s, false
		}
		if s.row && !own && !m.maybeLapsed(s, o) {
			return s, false
		}
		if m.timed && !endOfGrant(s, o, own) {
			return s, false
		}
		return state{
			row: true, owner: o.Owner, session: o.Session, token: a.Token, high: a.Token,
			earliestEnd: a.Expires, latestEnd: a.Expires, trust: o.Trust, closed: s.closed,
		}, true
	default:
		return s, false
	}
}

// endOfGrant: a grant lasts for its TTL from the backend's now(), and a re-entry
// never cuts what was promised before (K-2.10).
func endOfGrant(s state, o op, own bool) bool {
	asked := o.Answer.Acquired + o.TTL
	if !own {
		return o.Answer.Expires == asked
	}
	return o.Answer.Expires >= s.earliestEnd &&
		(o.Answer.Expires == asked || o.Answer.Expires > asked && o.Answer.Expires <= s.latestEnd)
}

func (m mutex) renew(s state, o op) (state, bool) {
	switch o.Result {
	case Lost:
		return s, !s.row || s.token != o.Token || m.maybeLapsed(s, o)
	case Unknown:
		if !s.has(o.Token) || !m.maybeLive(s, o) {
			return s, false
		}
		s.bind(o.Token)
		s.earliestEnd, s.latestEnd = max(s.earliestEnd, o.earliest+o.TTL), never
		return s, true
	case OK:
		if !s.has(o.Token) || o.Answer.Token != o.Token {
			return s, false
		}
		end := o.Answer.Expires
		if m.timed && !m.renewable(s, o, end) {
			return s, false
		}
		s.bind(o.Token)
		s.earliestEnd, s.latestEnd, s.trust = end, end, max(s.trust, o.Trust)
		return s, true
	default:
		return s, false
	}
}

// renewable: the new end is the TTL from a moment at which the lease was live,
// or the old end, when that is later.
func (m mutex) renewable(s state, o op, end int64) bool {
	now := end - o.TTL
	extended := s.earliestEnd <= end && now < s.latestEnd+m.tolerance && now >= o.earliest && now <= o.latest
	kept := s.earliestEnd <= end && end <= s.latestEnd && o.earliest <= now
	return extended || kept
}

func (m mutex) release(s state, o op) (state, bool) {
	switch o.Result {
	case OK, Unknown:
		return s.freed(), s.has(o.Token)
	case Stale:
		return s, !s.row || s.token != o.Token || m.lapsedGone && m.maybeLapsed(s, o)
	default:
		return s, false
	}
}

func (m mutex) revoke(s state, o op) (state, bool) {
	switch o.Result {
	case OK:
		return s.freed(), s.has(o.Token) && o.Answer.Token == o.Token && o.Answer.Owner == s.owner
	case Unknown:
		return s.freed(), s.has(o.Token)
	case NotHeld:
		return s, m.maybeGone(s, o)
	case Moved:
		if o.Answer.Token == o.Token || !s.has(o.Answer.Token) || o.Answer.Owner != s.owner {
			return s, false
		}
		s.bind(o.Answer.Token)
		return s, true
	default:
		return s, false
	}
}

func (m mutex) show(s state, o op) (state, bool) {
	a := o.Answer
	switch o.Result {
	case NotFound:
		return s, m.maybeGone(s, o)
	case OK:
		if !s.has(a.Token) || a.Owner != s.owner || a.Session != s.session {
			return s, false
		}
		s.bind(a.Token)
		if !m.timed {
			return s, true
		}
		if a.Expires < s.earliestEnd || a.Expires > s.latestEnd {
			return s, false
		}
		s.earliestEnd, s.latestEnd = a.Expires, a.Expires
		return s, true
	default:
		return s, false
	}
}

// maybeLapsed: by the backend's clock the lease can be over, and its holder does
// not rely on it any more when the answer is there.
func (m mutex) maybeLapsed(s state, o op) bool {
	return (!m.timed || s.earliestEnd+m.tolerance <= o.latest) && o.Return >= s.trust
}

func (m mutex) maybeLive(s state, o op) bool {
	return !m.timed || s.latestEnd+m.tolerance > o.earliest
}

func (m mutex) maybeGone(s state, o op) bool {
	return !s.row || m.lapsedGone && m.maybeLapsed(s, o)
}

// has tells whether the key can stand under this token.
func (s state) has(token lockstore.Token) bool {
	if !s.row || token < 1 {
		return false
	}
	return s.token == token || s.token == 0 && token >= s.high
}

func (s *state) bind(token lockstore.Token) { s.token, s.high = token, token }

// freed keeps what must never come back: the tokens.
func (s state) freed() state { return state{high: s.high, closed: s.closed} }

func (o op) String() string {
	if o.closing {
		return "the history ends"
	}
	text := fmt.Sprintf("%s %s", o.Kind, o.Key)
	if o.Owner != "" {
		text += " by " + o.Owner
	}
	if o.Token != 0 {
		text += " with token " + o.Token.String()
	}
	return fmt.Sprintf("%s: %s %+v", text, o.Result, o.Answer)
}
