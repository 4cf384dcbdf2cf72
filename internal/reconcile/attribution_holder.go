package reconcile

import (
	"fmt"
	"slices"
)

// holder is who a token belonged to, by the surest record that says so.
type holder struct {
	name, key, source string
	revokedBy, reason string
	// doubt tells that another record contradicts it, or that it is nobody's grant.
	doubt bool
	// remark is what the reader must know beside the name, after the sentence that
	// says why the token is named.
	remark string
}

// holder walks the chain of K-8.2: the journal of grants, the lock that stands, the
// revocation, who claimed the payout, the attempt at the rail.
func (e *evidence) holder(f Finding, token int64, payer string) holder {
	var h holder
	for _, fact := range e.locks[token] {
		h.take(fact, token)
	}
	names := e.claimants(f, token, payer)
	if h.source == "" || h.source == fromLog {
		if len(names) > 0 {
			h.name, h.source = names[0], fromClaim
		} else if h.source == "" && e.presented(f, token) {
			h.source = fromAttempt
		}
	}
	if others := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == h.name }); len(others) > 0 {
		h.doubt = true
		h.remark += fmt.Sprintf("; it claimed as %s", quoted(names))
	}
	if h.key != "" && payer != "" && h.key != accountPrefix+payer {
		h.doubt = h.doubt || f.Class != foreignLockClass
		h.remark += fmt.Sprintf("; its lock was %q, which is not that of account %s", h.key, payer)
	}
	h.remark += e.missing(h)
	return h
}

// take adds what lockdb says; the first fact is the surest.
func (h *holder) take(fact lockFact, token int64) {
	switch fact.source {
	case fromLog:
		h.doubt = true
		h.remark += fmt.Sprintf("; token %d is a fence that %q drew (%s), and nobody's grant", token, fact.operator, fact.reason)
		if h.source == "" {
			h.source, h.key, h.revokedBy, h.reason = fromLog, fact.key, fact.operator, fact.reason
		}
		return
	case fromRevocation:
		if h.revokedBy == "" {
			h.revokedBy, h.reason = fact.operator, fact.reason
		}
	}
	switch {
	case h.source == "":
		h.name, h.key, h.source = fact.owner, fact.key, fact.source
	case fact.owner != h.name || fact.key != h.key:
		h.doubt = true
		h.remark += fmt.Sprintf("; %s says that it was %q on lock %q", fact.source, fact.owner, fact.key)
	}
}

// claimants are the names under which the token claimed, in paydb.
func (e *evidence) claimants(f Finding, token int64, payer string) []string {
	var names []string
	add := func(name string) {
		// V10 wrote "unknown" for a claim without a name.
		if name != "" && name != "unknown" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, id := range append([]string{f.PayoutID}, detailPayouts(f)...) {
		p := e.payouts[id]
		add(p.claims[token])
		if p.claim == token {
			add(p.claimedBy)
		}
	}
	for _, name := range e.names[tokenAt{token, payer}] {
		add(name)
	}
	return names
}

// presented tells that the token reached the rail with the payout.
func (e *evidence) presented(f Finding, token int64) bool {
	for _, a := range e.payouts[f.PayoutID].attempts {
		if a.token == token {
			return true
		}
	}
	return false
}

// missing says why the holder is not known better.
func (e *evidence) missing(h holder) string {
	switch {
	case h.source == fromJournal || h.source == fromLog:
		return ""
	case !e.lockRead && h.name != "":
		return "; lockdb was not read: the holder is who claimed with it in paydb"
	case !e.lockRead:
		return "; whose it was is not known: lockdb was not read, and no claim in paydb names it"
	case h.name == "":
		return "; whose it was is not known: lockdb has neither grant nor revocation of it, and no claim in paydb names it"
	default:
		return fmt.Sprintf("; the journal of grants does not know it: the holder is from %s", h.source)
	}
}
