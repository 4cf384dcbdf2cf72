package reconcile

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func cursorOf[T any](rows []T) cursor[T] {
	return func() (row T, ok bool, err error) {
		if len(rows) == 0 {
			return row, false, nil
		}
		row, rows = rows[0], rows[1:]
		return row, true, nil
	}
}

// visited is one call of mergeTokens, with copies of what it got.
type visited struct {
	Token int64
	Uses  []int32 // kinds
	Facts []string
}

func merged(t interface{ Fatal(...any) }, uses []tokenUse, facts []tokenFact) []visited {
	var got []visited
	err := mergeTokens(cursorOf(uses), cursorOf(facts), func(token int64, uses []tokenUse, facts []tokenFact) error {
		got = append(got, visitedOf(token, uses, facts))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func visitedOf(token int64, uses []tokenUse, facts []tokenFact) visited {
	v := visited{Token: token}
	for _, u := range uses {
		v.Uses = append(v.Uses, int32(u.kinds))
	}
	for _, f := range facts {
		v.Facts = append(v.Facts, f.key)
	}
	return v
}

// The walk sees what joining both sides in maps would: every token of either once, in
// order, with all of its rows in the order in which they came.
//
// Clauses: K-8.2
// Mutation: in mergeTokens take < for one of the <=, or do not advance one of the sides.
func TestMergeIsAFullJoin(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		tokens := rapid.SliceOfN(rapid.Int64Range(1, 12), 0, 30)
		var uses []tokenUse
		for i, token := range tokens.Draw(t, "uses") {
			uses = append(uses, tokenUse{token: token, kinds: useKind(i)})
		}
		var facts []tokenFact
		for i, token := range tokens.Draw(t, "facts") {
			facts = append(facts, tokenFact{token: token, key: fmt.Sprint(i)})
		}
		slices.SortStableFunc(uses, func(a, b tokenUse) int { return cmp.Compare(a.token, b.token) })
		slices.SortStableFunc(facts, func(a, b tokenFact) int { return cmp.Compare(a.token, b.token) })

		inPay, inLock := map[int64][]tokenUse{}, map[int64][]tokenFact{}
		all := map[int64]bool{}
		for _, u := range uses {
			inPay[u.token], all[u.token] = append(inPay[u.token], u), true
		}
		for _, f := range facts {
			inLock[f.token], all[f.token] = append(inLock[f.token], f), true
		}
		var want []visited
		for _, token := range slices.Sorted(maps.Keys(all)) {
			want = append(want, visitedOf(token, inPay[token], inLock[token]))
		}
		if diff := gocmp.Diff(want, merged(t, uses, facts)); diff != "" {
			t.Fatalf("-want +got:\n%s", diff)
		}
	})
}

// A stream that breaks off is an error, never the end.
//
// Clauses: K-8.1
// Mutation: drop the error of a cursor.
func TestMergeStopsAtAnError(t *testing.T) {
	t.Parallel()
	broken := errors.New("connection lost")
	good := []tokenUse{{token: 1}}
	breaking := func() (tokenUse, bool, error) {
		if len(good) > 0 {
			good = nil
			return tokenUse{token: 1}, true, nil
		}
		return tokenUse{}, false, broken
	}
	visit := func(int64, []tokenUse, []tokenFact) error { return nil }
	if err := mergeTokens(breaking, cursorOf[tokenFact](nil), visit); !errors.Is(err, broken) {
		t.Errorf("the uses broke off: %v", err)
	}
	failing := func() (tokenFact, bool, error) { return tokenFact{}, false, broken }
	if err := mergeTokens(cursorOf[tokenUse](nil), failing, visit); !errors.Is(err, broken) {
		t.Errorf("the facts broke off: %v", err)
	}
	stop := func(int64, []tokenUse, []tokenFact) error { return broken }
	if err := mergeTokens(cursorOf([]tokenUse{{token: 1}}), cursorOf[tokenFact](nil), stop); !errors.Is(err, broken) {
		t.Errorf("the visit failed: %v", err)
	}
}

var (
	payerA = accountID{15: 0xa}
	payerB = accountID{15: 0xb}
	noon   = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
)

const (
	lockA = "account:00000000-0000-0000-0000-00000000000a"
	lockB = "account:00000000-0000-0000-0000-00000000000b"
)

// Clauses: K-1.3, K-1.6, K-3.2, K-4.2, K-4.10, K-8.3
// Mutation: in judge leave out one of: debits, the floor's exemption, drawn, copied, the skew,
// the prefix of the key, twoPayers, or the grants that a lock or a revocation knows.
func TestJudge(t *testing.T) {
	t.Parallel()
	const last = 100
	// Journal's own beginning, and a token of its own.
	first := tokenFact{token: 10, kind: factGrant, key: "report", owner: "w"}
	grant := func(key string) tokenFact {
		return tokenFact{token: 50, kind: factGrant, key: key, owner: "w", at: noon}
	}
	revoked := tokenFact{token: 50, kind: factRevocation, key: lockA, owner: "w", operator: "op", at: noon}
	use := func(token int64, kinds useKind) tokenUse {
		return tokenUse{token: token, account: payerA, known: true, kinds: kinds, last: noon}
	}
	for name, tc := range map[string]struct {
		uses  []tokenUse
		facts []tokenFact
		want  []string
	}{
		"granted on its payer's lock": {[]tokenUse{use(50, written|useFence|useMark)}, []tokenFact{first, grant(lockA)}, nil},
		"not known":                   {[]tokenUse{use(50, useClaim)}, []tokenFact{first}, []string{"B06 A"}},
		"not known, only marked":      {[]tokenUse{use(50, useMark)}, []tokenFact{first}, []string{"B06 A"}},
		"not known, only raised":      {[]tokenUse{use(50, useRaise)}, []tokenFact{first}, []string{"B06 A"}},
		"a fence alone is B02":        {[]tokenUse{use(50, useFence)}, []tokenFact{first}, nil},
		"before the journal":          {[]tokenUse{use(5, written)}, []tokenFact{first}, nil},
		"no journal at all":           {[]tokenUse{use(50, written)}, nil, nil},
		"a copy begins no journal": {
			[]tokenUse{use(50, written)},
			[]tokenFact{{token: 10, kind: factGrant, key: lockA, owner: "w", copied: true}, {token: 60, kind: factGrant, key: lockA, owner: "w"}},
			nil,
		},
		"known by its revocation":       {[]tokenUse{use(50, useClaim)}, []tokenFact{first, revoked}, nil},
		"known by its lock":             {[]tokenUse{use(50, useClaim)}, []tokenFact{first, {token: 50, kind: factEntry, key: lockA, owner: "w"}}, nil},
		"the last one issued":           {[]tokenUse{use(last, useFence|useMark)}, []tokenFact{first, {token: last, kind: factFence}}, nil},
		"written above the last":        {[]tokenUse{use(last+1, useClaim|useFence|useMark)}, []tokenFact{first}, []string{"B07 A"}},
		"fence above the last":          {[]tokenUse{use(last+1, useFence)}, []tokenFact{first}, []string{"B08 A"}},
		"fence and mark above the last": {[]tokenUse{use(last+1, useRaise|useMark)}, []tokenFact{first}, []string{"B08 A", "B09 A"}},
		"floors at the target":          {[]tokenUse{{token: last, kinds: useAccountFloor | useRailFloor}}, []tokenFact{first}, nil},
		"floors above the last":         {[]tokenUse{{token: last + 1, kinds: useAccountFloor | useRailFloor}}, []tokenFact{first}, []string{"B08 -", "B09 -"}},
		"another lock's":                {[]tokenUse{use(50, useLeg)}, []tokenFact{first, grant(lockB)}, []string{"B19 A"}},
		"a longer key":                  {[]tokenUse{use(50, useLeg)}, []tokenFact{first, grant(lockA + "0")}, []string{"B19 A"}},
		"the key in capitals":           {[]tokenUse{use(50, useLeg)}, []tokenFact{first, grant("account:00000000-0000-0000-0000-00000000000A")}, []string{"B19 A"}},
		"a key that is no account's":    {[]tokenUse{use(50, useLeg)}, []tokenFact{first, grant("00000000-0000-0000-0000-00000000000a")}, []string{"B19 A"}},
		"another lock's, by its revocation": {
			[]tokenUse{use(50, useLeg)}, []tokenFact{first, {token: 50, kind: factRevocation, key: lockB, owner: "w", at: noon}}, []string{"B19 A"},
		},
		"only marked by another lock's":  {[]tokenUse{use(50, useMark)}, []tokenFact{first, grant(lockB)}, nil},
		"a fence that was drawn, raised": {[]tokenUse{use(50, useRaise|useFence|useMark)}, []tokenFact{first, {token: 50, kind: factFence}}, nil},
		"a fence is nobody's grant":      {[]tokenUse{use(50, useClaim)}, []tokenFact{first, {token: 50, kind: factFence}}, []string{"B19 A"}},
		"two payers, and whose lock it is not": {
			[]tokenUse{use(50, useLeg), {token: 50, account: payerB, known: true, kinds: useClaim}}, []tokenFact{first, grant(lockA)}, []string{"B05 B"},
		},
		"two payers, the other way round": {
			[]tokenUse{use(50, useLeg), {token: 50, account: payerB, known: true, kinds: useClaim}}, []tokenFact{first, grant(lockB)}, []string{"B05 A"},
		},
		"one fence raised on two accounts": {
			[]tokenUse{use(50, useRaise), {token: 50, account: payerB, known: true, kinds: useRaise | useMark}}, []tokenFact{first, {token: 50, kind: factFence}}, nil,
		},
		"two names": {[]tokenUse{{token: 50, account: payerA, known: true, kinds: useClaim, twoNames: true}}, []tokenFact{first, grant(lockA)}, []string{"B05 A"}},
		"revoked on another lock": {
			nil, []tokenFact{first, grant(lockA), {token: 50, kind: factRevocation, key: lockB, owner: "w"}}, []string{"B05 -"},
		},
		"held by another": {nil, []tokenFact{first, grant(lockA), {token: 50, kind: factEntry, key: lockA, owner: "v"}}, []string{"B05 -"}},
		"wrote within the skew": {
			[]tokenUse{{token: 50, account: payerA, known: true, kinds: useLeg, last: noon.Add(5 * time.Second)}}, []tokenFact{first, grant(lockA), revoked}, nil,
		},
		"wrote after it was revoked": {
			[]tokenUse{{token: 50, account: payerA, known: true, kinds: useLeg, last: noon.Add(5*time.Second + 1)}}, []tokenFact{first, grant(lockA), revoked}, []string{"B12 A"},
		},
		"posted once": {[]tokenUse{{token: 50, account: payerA, known: true, kinds: useLeg, debits: 1}}, []tokenFact{first, grant(lockA)}, nil},
		"posted twice": {
			[]tokenUse{{token: 50, account: payerA, known: true, kinds: useLeg, debits: 2}}, []tokenFact{first, grant(lockA)}, []string{"B21 A"},
		},
		"raised after it was revoked": {
			[]tokenUse{{token: 50, account: payerA, known: true, kinds: useFence | useMark, last: noon.Add(time.Hour)}}, []tokenFact{first, grant(lockA), revoked}, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := judge{last: last, lastKnown: true, skew: clockSkew}
			if err := mergeTokens(cursorOf(tc.uses), cursorOf(tc.facts), j.visit); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, s := range j.found {
				on := "-"
				switch {
				case s.known && s.account == payerA:
					on = "A"
				case s.known:
					on = "B"
				}
				got = append(got, s.class+" "+on)
			}
			if diff := gocmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// Where the last token is not known, nothing is compared with it.
//
// Clauses: K-7.6, K-8.3
// Mutation: leave lastKnown out of judge.issued.
func TestJudgeWithoutTheLastToken(t *testing.T) {
	t.Parallel()
	j := judge{skew: clockSkew}
	uses := []tokenUse{
		{token: 50, account: payerA, known: true, kinds: useClaim},
		{token: 70, account: payerA, known: true, kinds: useFence},
		{token: 80, kinds: useRailFloor},
	}
	if err := mergeTokens(cursorOf(uses), cursorOf([]tokenFact{{token: 10, kind: factGrant, key: lockA, owner: "w"}}), j.visit); err != nil {
		t.Fatal(err)
	}
	if len(j.found) > 0 {
		t.Errorf("found %+v", j.found)
	}
	if j.tokens != 3 {
		t.Errorf("%d tokens were walked, there are 3", j.tokens)
	}
}
