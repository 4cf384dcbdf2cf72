package reconcile

import (
	"encoding/hex"
	"slices"
	"time"
)

// accountID is an account's UUID.
type accountID [16]byte

const accountPrefix = "account:"

// String is the canonical form.
func (a accountID) String() string { return string(a.append(nil)) }

func (a accountID) append(to []byte) []byte {
	for i, part := range [][]byte{a[:4], a[4:6], a[6:8], a[8:10], a[10:]} {
		if i > 0 {
			to = append(to, '-')
		}
		to = hex.AppendEncode(to, part)
	}
	return to
}

// ownsKey tells that the lock key is the account's (K-4.2), to the letter: another
// spelling of it would be another lock.
func (a accountID) ownsKey(key string) bool {
	var buffer [len(accountPrefix) + 36]byte
	return string(a.append(append(buffer[:0], accountPrefix...))) == key
}

// suspicion is what the walk found wrong with a token, before it is told.
type suspicion struct {
	class string
	token int64
	// account is the payer that it concerns, if known, and kinds what the token did
	// there; other is a second payer.
	account, other  accountID
	known, hasOther bool
	kinds           useKind
	twoNames        bool
	// grant is what lockdb knows of it, if granted; against contradicts that, if
	// unequal. revoked is its earliest revocation.
	grant, against, revoked      tokenFact
	granted, unequal, wasRevoked bool
	// drawn tells that it is a fence that an operator drew.
	drawn bool
}

// judge decides the classes of the walk, token after token in rising order.
type judge struct {
	// last is the last token issued, if lastKnown.
	last      int64
	lastKnown bool
	skew      time.Duration

	// journal is the first token that the journal of grants knows of by itself, once
	// it has come by: what it cannot know is no break.
	journal int64
	begun   bool
	tokens  int64
	found   []suspicion
}

// visit is what mergeTokens calls.
func (j *judge) visit(token int64, uses []tokenUse, facts []tokenFact) error {
	s := j.known(token, facts)
	if len(uses) > 0 {
		j.tokens++
	}
	twoPayers := j.sameTokenTwice(s, uses)
	for _, use := range uses {
		s.account, s.known, s.kinds, s.twoNames = use.account, use.known, use.kinds, use.twoNames
		j.issued(s, use)
		if use.kinds&written == 0 {
			continue
		}
		if s.wasRevoked && use.last.After(s.revoked.at.Add(j.skew)) {
			j.add("B12", s)
		}
		if use.debits > 1 {
			j.add(postedTwiceClass, s)
		}
		// An F is nobody's grant (K-1.6); of a token of two payers B05 tells more.
		key := s.lockKey()
		if !twoPayers && (key != "" && !use.account.ownsKey(key) || key == "" && s.drawn) {
			j.add("B19", s)
		}
	}
	return nil
}

// known sums up what lockdb says of the token.
func (j *judge) known(token int64, facts []tokenFact) suspicion {
	s := suspicion{token: token}
	for _, fact := range facts {
		switch fact.kind {
		case factGrant:
			s.grant, s.granted = fact, true
			if !fact.copied && !j.begun {
				j.journal, j.begun = fact.token, true
			}
		case factRevocation:
			if !s.wasRevoked || fact.at.Before(s.revoked.at) {
				s.revoked, s.wasRevoked = fact, true
			}
		case factFence:
			s.drawn = true
		case factEntry:
		}
	}
	if !s.granted {
		// A grant that the journal lost is known by its lock while that is held.
		if i := slices.IndexFunc(facts, func(f tokenFact) bool { return f.kind == factEntry }); i >= 0 {
			s.grant, s.granted = facts[i], true
		}
	}
	for _, fact := range facts {
		if s.granted && fact.kind != factFence && (fact.key != s.grant.key || fact.owner != s.grant.owner) {
			s.against, s.unequal = fact, true
		}
	}
	return s
}

// lockKey is the key that the token was granted on, "" where nothing says so.
func (s *suspicion) lockKey() string {
	switch {
	case s.granted:
		return s.grant.key
	case s.wasRevoked:
		return s.revoked.key
	}
	return ""
}

// sameTokenTwice is B05: one token, one grant (K-1.3). It tells that two payers'
// money moved under the token.
func (j *judge) sameTokenTwice(s suspicion, uses []tokenUse) (twoPayers bool) {
	for _, use := range uses {
		if use.kinds&written == 0 {
			continue
		}
		s.twoNames = s.twoNames || use.twoNames
		s.kinds |= use.kinds
		switch {
		case !s.known:
			s.account, s.known = use.account, true
		case !s.hasOther:
			s.other, s.hasOther = use.account, true
		}
	}
	if s.hasOther && s.account.ownsKey(s.lockKey()) {
		s.account, s.other = s.other, s.account // the finding is about the one whose lock it was not
	}
	if s.hasOther || s.twoNames || s.unequal {
		j.add("B05", s)
	}
	return s.hasOther
}

// issued are B06 to B09: was the token ever issued, and to whom?
func (j *judge) issued(s suspicion, use tokenUse) {
	if !j.lastKnown {
		return
	}
	if use.token <= j.last {
		// A fence that stands alone is B02; a floor was advanced to, not issued.
		needsGrant := use.kinds&(written|useRaise|useMark) != 0
		if needsGrant && !s.granted && !s.wasRevoked && !s.drawn && j.begun {
			j.add("B06", s)
		}
		return
	}
	// Fence and mark follow from what was written.
	if use.kinds&written != 0 {
		j.add("B07", s)
		return
	}
	if use.kinds&(useFence|useRaise|useAccountFloor) != 0 {
		j.add("B08", s)
	}
	if use.kinds&(useMark|useRailFloor) != 0 {
		j.add("B09", s)
	}
}

func (j *judge) add(class string, s suspicion) {
	s.class = class
	j.found = append(j.found, s)
}
