package reconcile

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// The classes whose attribution looks further than at the suspects of the rule.
const (
	driftClass       = "A01"
	negativeClass    = "A04"
	amountClass      = "A10"
	splitClass       = "A15"
	loneFenceClass   = "B02"
	lateLegClass     = "B03"
	otherClaimClass  = "B04"
	lateAttemptClass = "B11"
	revokedClass     = "B12"
	foreignLockClass = "B19"
	journalClass     = "B20"
	postedTwiceClass = "B21"
	referenceClass   = "C06"
)

// verdict is which token a finding names.
type verdict struct {
	confidence Confidence
	token      int64
	others     []int64
	why        string
	// payer is the account whose lock the token should be of.
	payer string
}

// judge decides it. A proof needs two records that were written by different
// statements and agree: a row that somebody edited must not convict whoever wrote it.
func (e *evidence) judge(f Finding) verdict {
	v := e.rule(f)
	if v.payer == "" {
		v.payer = e.payer(f)
	}
	return v
}

func (e *evidence) rule(f Finding) verdict {
	if why, nobody := nobodys[f.Class]; nobody {
		v := verdict{confidence: None, why: why}
		if slices.Contains(besideNobody, f.Class) {
			v.others = f.Suspects
		}
		return v
	}
	switch f.Class {
	case driftClass:
		return e.drift(f)
	case negativeClass:
		return e.negative(f)
	case amountClass:
		if f.PayoutID == "" {
			return verdict{confidence: None, why: "the sum of many legs is beyond 64 bits, and no single one of them is wrong"}
		}
	case splitClass:
		return e.split(f)
	case loneFenceClass:
		return e.loneFence(f)
	case lateLegClass:
		return e.lateLeg(f)
	case otherClaimClass:
		return e.otherClaim(f)
	case lateAttemptClass:
		return e.lateAttempt(f)
	case revokedClass:
		return e.revoked(f)
	case foreignLockClass:
		return e.foreignLock(f)
	}
	return suspects(f, whys[f.Class])
}

// nobodys are the classes behind which no grant stands, and why.
var nobodys = map[string]string{
	unanchoredClass: "nobody recorded what the account held before its first leg: no token did that",
	"A03":           "an opening balance is written without a token",
	"B08":           "lockdb was restored or rewound, or the number is forged: nobody was ever granted it",
	"B09":           "lockdb was restored or rewound, or the number is forged: nobody was ever granted it",
	"B15":           "what was written carries no token: whatever wrote it went round the fence",
	"B18":           "lockdb was restored or rewound since the revocation: nobody holds a grant of that number",
	journalClass:    "whoever wrote one of the two records past the guards, or took it away, left no name: the token's holder had no part in it",
	"D01":           "a restore or a change of the sequence is behind it, and no grant",
	"D02":           "whoever owns the schema is behind it, and no grant",
	"D03":           "a restore or a fail-over is behind it, and no grant",
	"D04":           "a restore of paydb is behind it, and no grant",
	guardsClass:     "whoever owns the schema is behind it, and no grant",
	"D06":           "the clock of a server is behind it, and no grant",
	historyClass:    "whoever owns the schema is behind it, and no grant",
	"D10":           "a leg that was sealed has changed since: the token on it wrote the leg, and not the change, which no row names",
	"S01":           "the rail paid what paydb has no payout for: no token is known of it",
}

// besideNobody are those of them in which a token had a part that is no proof.
var besideNobody = []string{"B15", "D10"}

const (
	authored = "authored by: the legs of the payout carry the token; who changed or removed a row of it since, no row says"
	ofRow    = "the payout's row is claimed under the token; who changed the row past its guards, if somebody did, no row says"
	ofTry    = "the attempt at the rail carries the token"
)

// whys say how the rule itself came to its suspects.
var whys = map[string]string{
	"A05": authored, "A06": authored, "A07": authored, "A08": authored, "A09": authored,
	amountClass: authored, "A12": authored, "A13": authored,
	"A14": "authored by: the row carries the token; who removed what it belongs to, no row says",
	"A20": "authored by: the leg carries the token; who dated it so, no row says",
	"A11": ofRow, "A16": ofRow, "C02": ofRow, "C12": ofRow, "C14": ofRow,
	"B01":            "the legs above the fence carry the token; whether its posting left the fence behind, or the fence was set back since, no row says",
	"B05":            "it is the token itself that stands twice; which of its holders wrote what, the claims say",
	"B06":            "what was written carries the token",
	"B07":            "what was written carries the token, which was not issued yet",
	"B10":            "the attempts above the mark carry the token; whether they passed without it, or the mark was set back since, no row says",
	"B13":            "the lock is held under the token",
	"B14":            "the lock is held under the token; a restore of lockdb would leave it so too",
	"B16":            "the payout is claimed under the token; the other one is that of the lock now",
	postedTwiceClass: "the legs of all of them carry the token; which of them it was let through to wrongly, no row says",
	"C01":            ofTry, "C03": ofTry, "C04": ofTry, "C05": ofTry, "C07": ofTry, "C08": ofTry, "C10": ofTry, "C13": ofTry,
	"S02": ofTry, "S03": ofTry, "S04": ofTry, "S05": ofTry,
	"C06": "the later of the attempts carries the token; which of them the reference belongs to, the rail knows",
	"C09": "the later of the attempts carries the token; the other one made the first",
	"C11": "the payout is claimed under the token",
}

// suspects names the first of those of the rule.
func suspects(f Finding, why string) verdict {
	tokens := distinct(f.Suspects)
	if why == "" {
		why = "the rule names the token"
	}
	switch {
	case len(tokens) == 0:
		return verdict{confidence: None, why: "no token is written there"}
	case len(tokens) > mostLikely:
		return verdict{
			confidence: Window, token: tokens[0], others: tokens[1:],
			why: fmt.Sprintf("%d tokens come into question, the first one first: %s", len(tokens), why),
		}
	}
	return verdict{confidence: Likely, token: tokens[0], others: tokens[1:], why: why}
}

// split is A15: the claim's own token is where it should be.
func (e *evidence) split(f Finding) verdict {
	claim := e.payouts[f.PayoutID].claim
	intruders := slices.DeleteFunc(slices.Clone(f.Suspects), func(t int64) bool { return t == claim })
	if claim == 0 || len(intruders) == 0 || len(intruders) == len(f.Suspects) {
		return suspects(f, authored)
	}
	f.Suspects = append(intruders, claim)
	return suspects(f, fmt.Sprintf("authored by: a leg carries it, and the payout is claimed under token %d; who changed a leg since, no row says", claim))
}

// posted tells that the payout's legs and its last change are one posting, under the
// token, which had claimed it by the name of its grant.
func (e *evidence) posted(f Finding, token int64) bool {
	p, known := e.payouts[f.PayoutID]
	grant, granted := e.grant(token)
	return known && granted && p.together && slices.Equal(p.fences, []int64{token}) && p.claims[token] == grant.owner
}

// grant is that of the journal.
func (e *evidence) grant(token int64) (lockFact, bool) {
	i := slices.IndexFunc(e.locks[token], func(fact lockFact) bool { return fact.source == fromJournal })
	if i < 0 {
		return lockFact{}, false
	}
	return e.locks[token][i], true
}

// endedBefore tells that the journal ended the token's grant before the moment, by
// more than the clocks may differ.
func (e *evidence) endedBefore(token int64, at time.Time) bool {
	grant, granted := e.grant(token)
	return granted && grant.endedAt != nil && !at.IsZero() && at.After(grant.endedAt.Add(clockSkew))
}

// outranked tells that a higher one of the suspects had been granted before the
// moment: a date that was changed alone does not make the other token late.
func (e *evidence) outranked(f Finding, token int64) bool {
	return !f.At.IsZero() && slices.ContainsFunc(f.Suspects, func(other int64) bool {
		grant, granted := e.grant(other)
		return other > token && granted && grant.at != nil && f.At.After(*grant.at)
	})
}

// proves raises a verdict that other records bear out.
func (v verdict) proves(holds bool, why string) verdict {
	if holds && v.confidence == Likely {
		v.confidence, v.why = Proven, why
	}
	return v
}

// loneFence is B02: a fence that was set by hand stands at any number.
func (e *evidence) loneFence(f Finding) verdict {
	v := suspects(f, "the account's fence stands at the token; whether its leg was never written or was removed since, no row says")
	_, granted := e.grant(v.token)
	drawn := slices.ContainsFunc(e.locks[v.token], func(fact lockFact) bool { return fact.source == fromLog })
	switch {
	case drawn && !granted:
		v.why = "the account's fence stands at the token, and no raise to it is recorded"
	case e.lockRead && !e.heldLock(v.token, f.AccountID):
		return verdict{confidence: None, others: f.Suspects, why: fmt.Sprintf(
			"the account's fence stands at %d, which lockdb granted to nobody on the account's lock: it was set otherwise", v.token)}
	}
	return v
}

// lateLeg is B03.
func (e *evidence) lateLeg(f Finding) verdict {
	v := suspects(f, "the late leg carries the token; the other one had posted before")
	return v.proves(v.token > 0 && e.posted(f, v.token) && e.payouts[f.PayoutID].late && e.endedBefore(v.token, f.At) && e.outranked(f, v.token),
		"both legs and the posting are of that moment and carry the token, it had claimed the payout, and its grant had ended before")
}

// otherClaim is B04.
func (e *evidence) otherClaim(f Finding) verdict {
	v := suspects(f, "both legs carry the token, and the payout's row another; who changed a row since, no row says")
	p := e.payouts[f.PayoutID]
	_, claimed := p.claims[p.claim]
	return v.proves(v.token > 0 && e.posted(f, v.token) && claimed && p.fence == v.token && p.claim > v.token,
		"both legs and the account's fence carry the token, and it had claimed the payout, which another token claims now")
}

// lateAttempt is B11.
func (e *evidence) lateAttempt(f Finding) verdict {
	v := suspects(f, "the late attempt carries the token; the other one had passed before")
	p := e.payouts[f.PayoutID]
	grant, _ := e.grant(v.token)
	return v.proves(v.token > 0 && p.attempts[f.Subject].inOrder && grant.owner != "" && p.claims[v.token] == grant.owner && e.endedBefore(v.token, f.At) && e.outranked(f, v.token),
		"the attempt carries the token, which had claimed the payout and whose grant had ended before")
}

// revoked is B12.
func (e *evidence) revoked(f Finding) verdict {
	v := suspects(f, "what was written after the revocation carries the token")
	at := e.payouts[f.PayoutID].legsAt
	after := at != nil && slices.ContainsFunc(e.locks[v.token], func(fact lockFact) bool {
		return fact.source == fromRevocation && fact.at != nil && at.After(fact.at.Add(clockSkew))
	})
	return v.proves(after && e.posted(f, v.token),
		"both legs and the posting are later than the revocation and carry the token, which had claimed the payout")
}

// foreignLock is B19.
func (e *evidence) foreignLock(f Finding) verdict {
	v := suspects(f, "what was written carries the token")
	return v.proves(v.token > 0 && e.posted(f, v.token) && e.payouts[f.PayoutID].claim == v.token,
		"the claim, both legs and the posting carry the token, and the claim has the name of its grant, on another lock")
}

// detailPayouts are those of a finding that is about several.
func detailPayouts(f Finding) []string {
	if f.Class != referenceClass {
		return nil
	}
	var details struct {
		Payouts []struct {
			Payout string `json:"payout"`
		} `json:"payouts"`
	}
	if err := json.Unmarshal(f.Details, &details); err != nil {
		return nil // the rule wrote something else there
	}
	var ids []string
	for _, p := range details.Payouts {
		ids = append(ids, p.Payout)
	}
	return ids
}
