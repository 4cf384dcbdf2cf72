package locktest

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// CheckTimeout bounds the search of one history; one that cannot be decided in
// this time counts as not proven.
const CheckTimeout = 2 * time.Minute

// The ways in which a history is wrong; Check's error wraps them.
var (
	// ErrNotLinearizable: no order of the operations on a key explains what the
	// clients were told.
	ErrNotLinearizable = errors.New("not linearizable")
	// ErrTokenRepeated: one token was given to two grants (K-1.3).
	ErrTokenRepeated = errors.New("a token was issued twice")
	// ErrTokenOrder: a grant that began when another had been answered got a
	// lower token (K-1.3).
	ErrTokenOrder = errors.New("tokens fall")
	// ErrTokenRange: a token below 1 or above 2^53 (K-1.6).
	ErrTokenRange = errors.New("a token is out of range")
	// ErrClock: an entry says that it has lapsed, and its own times do not, or
	// the other way round (K-2.1).
	ErrClock = errors.New("an answer contradicts its own times")
	// ErrUndecided: the search took longer than CheckTimeout.
	ErrUndecided = errors.New("undecided")
)

// Verdict is what Check found.
type Verdict struct {
	// Err is nil for a history that the fenced mutex explains.
	Err  error
	info porcupine.LinearizationInfo
	mod  porcupine.Model
}

// Visualize writes an HTML page that shows the history and the longest order
// found for each key.
func (v Verdict) Visualize(out io.Writer) error {
	if err := porcupine.Visualize(v.mod, v.info, out); err != nil {
		return fmt.Errorf("draw a history: %w", err)
	}
	return nil
}

// Check tells whether the fenced mutex explains the history: key by key by a
// search for an order (linearizability), and the tokens of all keys together.
func Check(history History, rules Rules) Verdict {
	v := Verdict{mod: model(rules)}
	v.Err = errors.Join(checkTokens(history, rules), checkClocks(history, rules))
	ops := make([]porcupine.Operation, len(history))
	for i, o := range boundMoments(history) {
		ops[i] = porcupine.Operation{ClientId: o.Client, Input: o, Call: o.Call, Return: o.Return}
	}
	var result porcupine.CheckResult
	result, v.info = porcupine.CheckOperationsVerbose(v.mod, ops, CheckTimeout)
	switch result {
	case porcupine.Ok:
	case porcupine.Illegal:
		v.Err = errors.Join(v.Err, ErrNotLinearizable)
	case porcupine.Unknown:
		v.Err = errors.Join(v.Err, ErrUndecided)
	}
	return v
}

// checkTokens looks at the grants of all keys together, or, when tokens are
// counted by key, of each.
func checkTokens(history History, rules Rules) error {
	var errs []error
	first := make(map[lockstore.GrantRef]Op)
	order := make(map[string][]Op)
	for _, o := range history {
		if o.Kind != Acquire || o.Result != OK {
			continue
		}
		if o.Answer.Token < 1 || o.Answer.Token > lockstore.MaxToken {
			errs = append(errs, fmt.Errorf("%w: %s", ErrTokenRange, op{Op: o}))
		}
		space := o.Key
		if rules.GlobalTokens {
			space = ""
		}
		ref := lockstore.GrantRef{Key: space, Token: o.Answer.Token}
		if other, twice := first[ref]; twice {
			errs = append(errs, fmt.Errorf("%w: %s, and %s", ErrTokenRepeated, op{Op: other}, op{Op: o}))
		}
		first[ref] = o
		order[space] = append(order[space], o)
	}
	for _, grants := range order {
		errs = append(errs, checkOrder(grants))
	}
	return errors.Join(errs...)
}

// checkOrder compares each grant with the highest token that had been answered
// before it was asked for.
func checkOrder(grants []Op) error {
	byReturn := slices.SortedFunc(slices.Values(grants), func(a, b Op) int { return cmp.Compare(a.Return, b.Return) })
	byCall := slices.SortedFunc(slices.Values(grants), func(a, b Op) int { return cmp.Compare(a.Call, b.Call) })
	var highest Op
	returned := 0
	for _, grant := range byCall {
		for ; returned < len(byReturn) && byReturn[returned].Return < grant.Call; returned++ {
			if byReturn[returned].Answer.Token > highest.Answer.Token {
				highest = byReturn[returned]
			}
		}
		if grant.Answer.Token < highest.Answer.Token {
			return fmt.Errorf("%w: %s, and after it %s", ErrTokenOrder, op{Op: highest}, op{Op: grant})
		}
	}
	return nil
}

func checkClocks(history History, rules Rules) error {
	for _, o := range history {
		if a := o.Answer; rules.Timed && o.Kind == Show && o.Result == OK && a.Expired != (a.Expires+rules.Tolerance.Microseconds() <= a.Now) {
			return fmt.Errorf("%w: %s", ErrClock, op{Op: o})
		}
	}
	return nil
}

// boundMoments finds for each operation between which moments of the backend's
// clock it was carried out. An operation that says the moment itself has it; for
// the others it lies between the highest clock that anybody had read when it
// began and the lowest that somebody read who began when it had ended.
func boundMoments(history History) []op {
	ops := make([]op, len(history))
	type reading struct{ at, clock int64 }
	var before, after []reading
	for i, o := range history {
		ops[i] = op{Op: o, latest: never}
		if clock := o.clock(); clock != 0 {
			before, after = append(before, reading{o.Return, clock}), append(after, reading{o.Call, clock})
		}
	}
	byTime := func(a, b reading) int { return cmp.Compare(a.at, b.at) }
	slices.SortFunc(before, byTime)
	slices.SortFunc(after, byTime)
	for i := 1; i < len(before); i++ {
		before[i].clock = max(before[i].clock, before[i-1].clock)
	}
	for i := len(after) - 2; i >= 0; i-- {
		after[i].clock = min(after[i].clock, after[i+1].clock)
	}
	find := func(readings []reading, at int64) int {
		i, _ := slices.BinarySearchFunc(readings, at, func(r reading, at int64) int { return cmp.Compare(r.at, at) })
		return i
	}
	for i := range ops {
		o := &ops[i]
		if clock := o.clock(); clock != 0 {
			o.earliest, o.latest = clock, clock
			continue
		}
		if n := find(before, o.Call); n > 0 {
			o.earliest = before[n-1].clock
		}
		if n := find(after, o.Return+1); n < len(after) && o.Result != Unknown {
			o.latest = after[n].clock
		}
	}
	return ops
}

// clock is the moment on the backend's clock that the answer itself tells.
func (o Op) clock() int64 {
	switch {
	case o.Result != OK:
		return 0
	case o.Kind == Acquire:
		return o.Answer.Acquired
	case o.Kind == Show:
		return o.Answer.Now
	}
	return 0
}

// Stats counts what a history holds, to tell a history that proves something
// from one in which little happened. Ops are all but those that failed.
type Stats struct {
	Clients, Keys, Ops, Grants, Takeovers, ReEntries, Renewals, Lost, Stale, Held, Revoked, Moved, Unknown, Failed int
}

// StatsOf counts. A takeover is a grant over another's that nobody released or
// revoked and whose lease had lapsed by the backend's own clock.
func StatsOf(history History) Stats {
	var s Stats
	clients, keys := make(map[int]bool), make(map[string][]Op)
	ended := make(map[lockstore.GrantRef]bool)
	ends := make(map[lockstore.GrantRef]int64)
	for _, o := range history {
		clients[o.Client] = true
		ref := lockstore.GrantRef{Key: o.Key, Token: o.Token}
		keys[o.Key] = append(keys[o.Key], o)
		s.count(o)
		switch {
		case (o.Kind == Release || o.Kind == Revoke) && (o.Result == OK || o.Result == Unknown):
			ended[ref] = true
		case o.Kind == Renew && o.Result == OK:
			ends[ref] = max(ends[ref], o.Answer.Expires)
		}
	}
	s.Clients, s.Keys = len(clients), len(keys)
	for key, ops := range keys {
		grants := slices.DeleteFunc(ops, func(o Op) bool { return o.Kind != Acquire || o.Result != OK })
		slices.SortFunc(grants, func(a, b Op) int { return cmp.Compare(a.Answer.Token, b.Answer.Token) })
		for i := 1; i < len(grants); i++ {
			last, grant := grants[i-1], grants[i]
			ref := lockstore.GrantRef{Key: key, Token: last.Answer.Token}
			switch {
			case ended[ref]:
			case last.Owner == grant.Owner && last.Session == grant.Session:
				s.ReEntries++
			case max(last.Answer.Expires, ends[ref]) <= grant.Answer.Acquired:
				s.Takeovers++
			}
		}
	}
	return s
}

func (s *Stats) count(o Op) {
	if o.Result == Failed {
		s.Failed++
		return
	}
	s.Ops++
	switch {
	case o.Result == Unknown:
		s.Unknown++
	case o.Result == Held:
		s.Held++
	case o.Result == Lost:
		s.Lost++
	case o.Result == Stale:
		s.Stale++
	case o.Result == Moved:
		s.Moved++
	case o.Result != OK:
	case o.Kind == Acquire:
		s.Grants++
	case o.Kind == Renew:
		s.Renewals++
	case o.Kind == Revoke:
		s.Revoked++
	}
}
