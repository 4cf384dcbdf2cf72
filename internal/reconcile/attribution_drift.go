package reconcile

import (
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"
)

// balanceDetails are those of the classes of balances. LegFence is the highest token on a
// leg of the account's own payouts, 0 for none.
type balanceDetails struct {
	Balance  string `json:"balance_minor"`
	Opening  string `json:"opening_minor"`
	Fence    int64  `json:"fence"`
	LegFence int64  `json:"leg_fence"`
	Debit    string `json:"debit_minor"`
	Credit   string `json:"credit_minor"`
}

// drift is A01. The fence is the token of the last posting that changed the balance,
// and a leg's that of the posting that wrote it: which of the two is behind tells
// what is missing. A balance that was changed by hand has no token, and the one that
// posted last is not to be blamed for it.
func (e *evidence) drift(f Finding) verdict {
	var d balanceDetails
	if err := json.Unmarshal(f.Details, &d); err != nil {
		return verdict{confidence: None, why: "the finding has no numbers to go by"}
	}
	candidates := e.drifts[f.AccountID]
	clearing := e.clearing[f.AccountID]
	switch {
	case !clearing && d.Fence > d.LegFence:
		return e.driftAhead(f, d, candidates)
	case !clearing && d.Fence < d.LegFence:
		return behindFence(f, d, candidates)
	case len(candidates) == 0:
		return verdict{confidence: None, why: unexplained(f, d, clearing)}
	}
	return ofCandidates(candidates, "the fence agrees with the last leg, so that the last posting is none that is missing")
}

// driftAhead: the fence went on, and no leg did.
func (e *evidence) driftAhead(f Finding, d balanceDetails, candidates []driftCandidate) verdict {
	own := slices.DeleteFunc(slices.Clone(candidates), func(c driftCandidate) bool { return c.token != d.Fence || c.how != driftUnwritten })
	if len(own) == 1 && len(candidates) == 1 {
		// Never proven: who took the legs of a posting away leaves the same rows as a
		// holder who wrote none.
		return verdict{confidence: Likely, token: d.Fence, payer: own[0].payer, why: fmt.Sprintf(
			"the account's fence stands at the token, its last leg is of token %d, and payout %s, which the token claims, is of exactly the amount: "+
				"the balance and the fence know its posting, whose leg was never written or was removed since, which no row tells", d.LegFence, own[0].payout)}
	}
	if len(candidates) == 0 && e.heldLock(d.Fence, f.AccountID) {
		return verdict{confidence: Likely, token: d.Fence, why: fmt.Sprintf(
			"the account's fence stands at the token and its last leg is of token %d, but no payout of the token is of the amount: the balance may have been changed by hand as well", d.LegFence)}
	}
	if len(candidates) == 0 {
		return verdict{confidence: None, others: []int64{d.Fence}, why: fmt.Sprintf(
			"the account's fence stands at %d, above its last leg's token %d, but nothing says that a holder of the account's lock put it there, and no posting is of the amount", d.Fence, d.LegFence)}
	}
	return ofCandidates(candidates, fmt.Sprintf("the account's fence stands at %d, above its last leg's token %d", d.Fence, d.LegFence))
}

// heldLock tells that the token was granted on the account's lock, or, where lockdb is
// not read, that it claimed payouts of the account.
func (e *evidence) heldLock(token int64, account string) bool {
	if !e.lockRead {
		return len(e.names[tokenAt{token, account}]) > 0
	}
	grant, granted := e.grant(token)
	return granted && grant.key == accountPrefix+account
}

// behindFence: a leg was written, and the account does not know of it.
func behindFence(f Finding, d balanceDetails, candidates []driftCandidate) verdict {
	above := slices.DeleteFunc(slices.Clone(candidates), func(c driftCandidate) bool { return c.token <= d.Fence || c.how != driftLost })
	told := fmt.Sprintf("the account's fence stands at %d, and a leg above it is of exactly the amount: balance and fence do not know its posting, or were set back since, which no row tells", d.Fence)
	switch {
	case len(above) > 0:
		return ofCandidates(above, told)
	case len(candidates) > 0:
		return ofCandidates(candidates, fmt.Sprintf("no leg above the account's fence %d is of the amount", d.Fence))
	}
	return verdict{
		confidence: Window, token: d.LegFence,
		why: fmt.Sprintf("one of the tokens above the account's fence %d, up to %d of its last leg: none alone is of the amount %s", d.Fence, d.LegFence, f.AmountMinor),
	}
}

// ofCandidates names the highest token of those that explain the drift exactly. It
// never proves anything: an amount may agree by chance.
func ofCandidates(candidates []driftCandidate, told string) verdict {
	var tokens []int64
	var ways []string
	for _, c := range candidates {
		tokens = append(tokens, c.token)
		ways = append(ways, fmt.Sprintf(driftWays[c.how], c.payout))
	}
	v := verdict{confidence: Likely, token: tokens[0], payer: candidates[0].payer, others: distinct(tokens)[1:]}
	if len(distinct(tokens)) > mostLikely {
		v.confidence = Window
	}
	v.why = fmt.Sprintf("%s; explained to the unit by: %s", told, strings.Join(ways[:min(len(ways), mostLikely)], ", or "))
	if n := len(ways) - mostLikely; n > 0 {
		v.why += fmt.Sprintf(", or %d more", n)
	}
	return v
}

// driftWays name the payout.
var driftWays = map[string]string{
	driftLost:      "the leg of payout %s stands, and the balance does not know it",
	driftTwice:     "the leg of payout %s counted twice in the balance",
	driftEdited:    "a leg of payout %s, authored by the token, is not of the payout's amount; who changed it, no row says",
	driftUnwritten: "payout %s taken from the balance without a leg",
}

func unexplained(f Finding, d balanceDetails, clearing bool) string {
	if clearing {
		return fmt.Sprintf("a clearing account has no fence, and no single leg is of the amount %s: the findings of its payouts name the token, if one is behind it", f.AmountMinor)
	}
	if d.Fence == 0 {
		return "no token ever posted on the account: its balance was changed without one"
	}
	return fmt.Sprintf("the fence stands at the last leg's token %d and no posting is of the amount %s: the balance was changed without a token", d.Fence, f.AmountMinor)
}

// drift is what the balance has more than it should.
func (d balanceDetails) drift() *big.Int {
	sum := new(big.Int)
	add := func(text string, sign int64) {
		if n, ok := new(big.Int).SetString(text, 10); ok {
			sum.Add(sum, n.Mul(n, big.NewInt(sign)))
		}
	}
	add(d.Balance, 1)
	add(d.Opening, -1)
	add(d.Credit, -1)
	add(d.Debit, 1)
	return sum
}

// negative is A04: a posting took the balance below zero, unless the balance is not
// what the postings made it.
func (e *evidence) negative(f Finding) verdict {
	var d balanceDetails
	if err := json.Unmarshal(f.Details, &d); err != nil || d.LegFence == 0 {
		return verdict{confidence: None, why: "no payout of the account was ever posted: no token of its own took anything from it"}
	}
	if d.Fence == 0 {
		return verdict{confidence: None, why: "the account has no fence: what was posted on it left none, or the fence was set back"}
	}
	if drift := d.drift(); drift.Sign() != 0 {
		return verdict{confidence: None, others: f.Suspects, why: fmt.Sprintf("the balance is %s off from what was posted: see balance_drift of the account", drift)}
	}
	f.Suspects = []int64{d.LegFence}
	return suspects(f, "the last posting carries the token, and was not refused although the account held too little")
}
