package reconcile

import (
	"context"
	"maps"
	"slices"
	"strconv"
)

const (
	// attributeAtOnce bounds the findings of one question to each database, and so the
	// memory.
	attributeAtOnce = 5_000
	// mostOthers bounds the further tokens of an attribution.
	mostOthers = 20
	// mostLikely is how many tokens may come into question for one to be likely.
	mostLikely = 3
)

// attribute names who is behind each finding (K-8.2). Which token is a question of the
// class; whose that was, of the records of both databases.
func attribute(ctx context.Context, rd reading, findings []Finding) error {
	for some := range slices.Chunk(findings, attributeAtOnce) {
		e, err := gather(ctx, rd, some)
		if err != nil {
			return err
		}
		for i := range some {
			some[i].Attribution = e.attribution(some[i])
		}
	}
	return nil
}

// evidence is what both databases say of some findings.
type evidence struct {
	payouts map[string]payoutFacts
	// drifts are the postings that would explain an account's.
	drifts map[string][]driftCandidate
	// clearing are those of the accounts that drift which have no fence (K-4.7).
	clearing map[string]bool
	// names are those under which a token claimed payouts of an account.
	names map[tokenAt][]string
	locks map[int64][]lockFact
	// lockRead is false where lockdb was not given.
	lockRead bool
}

// tokenAt is a token on an account.
type tokenAt struct {
	token   int64
	account string
}

// gather reads everything that the findings are judged by.
func gather(ctx context.Context, rd reading, findings []Finding) (*evidence, error) {
	e := &evidence{lockRead: rd.lock != nil}
	if err := e.readPayouts(ctx, rd.pay, findings); err != nil {
		return nil, err
	}
	if err := e.readDrifts(ctx, rd.pay, findings); err != nil {
		return nil, err
	}
	tokens := map[int64]bool{}
	wanted := map[tokenAt]bool{}
	for _, f := range findings {
		for _, token := range e.inQuestion(f) {
			tokens[token] = true
			if payer := e.payer(f); payer != "" {
				wanted[tokenAt{token, payer}] = true
			}
		}
		for _, c := range e.drifts[f.AccountID] {
			wanted[tokenAt{c.token, c.payer}] = true
		}
	}
	if err := e.readNames(ctx, rd.pay, wanted); err != nil {
		return nil, err
	}
	return e, e.readLocks(ctx, rd.lock, slices.Sorted(maps.Keys(tokens)))
}

// inQuestion are all tokens that a verdict about the finding may name.
func (e *evidence) inQuestion(f Finding) []int64 {
	all := slices.Clone(f.Suspects)
	if p, known := e.payouts[f.PayoutID]; known {
		all = append(append(all, p.claim), p.fences...)
	}
	for _, c := range e.drifts[f.AccountID] {
		all = append(all, c.token)
	}
	return distinct(all)
}

// payer is the account whose lock guards what the finding is about; "" where it is not
// known: the account of a leg may be any.
func (e *evidence) payer(f Finding) string {
	if f.PayoutID != "" {
		return e.payouts[f.PayoutID].payer
	}
	return f.AccountID
}

// distinct are the tokens in their order, each once; what is no token is left out.
func distinct(tokens []int64) []int64 {
	var out []int64
	for _, t := range tokens {
		if t > 0 && !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	return out
}

// attribution names the token of a finding and its holder.
func (e *evidence) attribution(f Finding) Attribution {
	v := e.judge(f)
	a := Attribution{Confidence: v.confidence, Token: v.token, Why: v.why}
	if others := distinct(v.others); len(others) > 0 {
		a.Others = others[:min(len(others), mostOthers)]
	}
	if v.token == 0 {
		return a
	}
	a.TokenStr = strconv.FormatInt(v.token, 10)
	h := e.holder(f, v.token, v.payer)
	a.Holder, a.Key, a.Source, a.RevokedBy, a.Reason = h.name, h.key, h.source, h.revokedBy, h.reason
	a.Why += h.remark
	if a.Confidence == Proven && (h.source != fromJournal || h.doubt) {
		a.Confidence = Likely // a proof needs the grant, and nothing that contradicts it
	}
	return a
}
