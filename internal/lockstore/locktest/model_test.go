package locktest_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/locktest"
)

// postgresRules are those of the reference backend.
func postgresRules() locktest.Rules { return locktest.Rules{Timed: true, GlobalTokens: true} }

// clock0 is the backend's clock, in microseconds, when a script begins.
const clock0 = 1_700_000_000_000_000

// op is an operation at a millisecond of the script, answered a millisecond
// later.
func op(ms int64, o locktest.Op) locktest.Op {
	o.Key, o.Call, o.Return = "k", ms*1_000_000, (ms+1)*1_000_000
	return o
}

func who(owner string) locktest.Op {
	return locktest.Op{Kind: locktest.Acquire, Owner: owner, Session: lockstore.SessionID("session of " + owner)}
}

func acquired(ms int64, owner string, token lockstore.Token, ttl int64) locktest.Op {
	o := who(owner)
	o.Result, o.TTL, o.Trust = locktest.OK, ttl*1000, (ms+ttl)*1_000_000
	o.Answer = locktest.Answer{Token: token, Owner: owner, Session: o.Session, Acquired: clock0 + ms*1000, Expires: clock0 + (ms+ttl)*1000}
	return op(ms, o)
}

func held(ms int64, owner string) locktest.Op {
	o := who(owner)
	o.Result, o.TTL = locktest.Held, 100_000
	return op(ms, o)
}

func lostAcquire(ms int64, owner string, ttl int64) locktest.Op {
	o := who(owner)
	o.Result, o.TTL = locktest.Unknown, ttl*1000
	return op(ms, o)
}

// renewed is of token 1, as is what else is told or revoked.
func renewed(ms, ttl int64) locktest.Op {
	return op(ms, locktest.Op{
		Kind: locktest.Renew, Token: 1, TTL: ttl * 1000, Result: locktest.OK, Trust: (ms + ttl) * 1_000_000,
		Answer: locktest.Answer{Token: 1, Expires: clock0 + (ms+ttl)*1000},
	})
}

func told(ms int64, kind locktest.Kind, result locktest.Result) locktest.Op {
	o := op(ms, locktest.Op{Kind: kind, Token: 1, Result: result})
	if kind == locktest.Renew {
		o.TTL = 100_000
	}
	return o
}

func revoked(ms int64, result locktest.Result, owner string, stands lockstore.Token) locktest.Op {
	o := told(ms, locktest.Revoke, result)
	o.Answer = locktest.Answer{Token: stands, Owner: owner}
	return o
}

// shown has a lease of 100 ms.
func shown(ms int64, owner string, token lockstore.Token, acquired int64) locktest.Op {
	now, end := clock0+ms*1000, clock0+(acquired+100)*1000
	return op(ms, locktest.Op{Kind: locktest.Show, Result: locktest.OK, Answer: locktest.Answer{
		Token: token, Owner: owner, Session: lockstore.SessionID("session of " + owner), Acquired: clock0 + acquired*1000, Expires: end, Now: now, Expired: end <= now,
	}})
}

func notFound(ms int64) locktest.Op {
	return op(ms, locktest.Op{Kind: locktest.Show, Result: locktest.NotFound})
}

// elsewhere moves an operation to another key.
func elsewhere(o locktest.Op) locktest.Op { o.Key = "other"; return o }

// script is a history that the fenced mutex explains, and what makes it one that
// it does not.
type script struct {
	name   string
	good   locktest.History
	mutate func(locktest.History)
	want   error
}

func token(i int, t lockstore.Token) func(locktest.History) {
	return func(h locktest.History) { h[i].Answer.Token = t }
}

func result(i int, r locktest.Result) func(locktest.History) {
	return func(h locktest.History) { h[i].Result = r }
}

func scripts() []script {
	illegal := locktest.ErrNotLinearizable
	return []script{
		{"token 0", locktest.History{acquired(0, "a", 1, 100)}, token(0, 0), locktest.ErrTokenRange},
		{"token above 2^53", locktest.History{acquired(0, "a", lockstore.MaxToken, 100)}, token(0, lockstore.MaxToken+1), locktest.ErrTokenRange},
		{"one token for two keys", locktest.History{acquired(0, "a", 1, 100), elsewhere(acquired(2, "b", 2, 100))}, token(1, 1), locktest.ErrTokenRepeated},
		{
			"tokens fall from key to key",
			locktest.History{acquired(0, "a", 1, 100), elsewhere(acquired(2, "b", 2, 100))},
			func(h locktest.History) { h[0].Answer.Token, h[1].Answer.Token = 2, 1 },
			locktest.ErrTokenOrder,
		},
		{
			"tokens of two overlapping grants swapped, as a later look shows",
			locktest.History{
				acquired(0, "a", 1, 100), told(2, locktest.Release, locktest.OK), acquired(3, "b", 2, 100), shown(5, "b", 2, 3),
			},
			func(h locktest.History) {
				h[0].Return, h[2].Call = 9_000_000, 0 // so that their order is the checker's to find
				h[0].Answer.Token, h[2].Answer.Token, h[1].Token, h[3].Answer.Token = 2, 1, 2, 1
			},
			illegal,
		},
		{"re-entry with the same token", locktest.History{acquired(0, "a", 1, 100), acquired(2, "a", 2, 100)}, token(1, 1), illegal},
		{"takeover with the same token", locktest.History{acquired(0, "a", 1, 100), acquired(110, "b", 2, 100)}, token(1, 1), illegal},
		{
			"grant while held",
			locktest.History{acquired(0, "a", 1, 100), held(50, "b")},
			func(h locktest.History) { h[1] = acquired(50, "b", 2, 100) },
			illegal,
		},
		{
			"takeover a millisecond before the end",
			locktest.History{acquired(0, "a", 1, 100), acquired(100, "b", 2, 100)},
			func(h locktest.History) { h[1] = acquired(99, "b", 2, 100) },
			illegal,
		},
		{
			"takeover before the end that a renewal gave",
			locktest.History{acquired(0, "a", 1, 100), renewed(50, 100), acquired(150, "b", 2, 100)},
			func(h locktest.History) { h[2] = acquired(120, "b", 2, 100) },
			illegal,
		},
		{
			"takeover while the holder's own clock still trusts",
			locktest.History{acquired(0, "a", 1, 100), acquired(100, "b", 2, 100)},
			func(h locktest.History) { h[0].Trust = 102_000_000 },
			illegal,
		},
		{
			"held, though the lease had lapsed before it was asked",
			locktest.History{acquired(0, "a", 1, 100), elsewhere(acquired(95, "c", 2, 100)), held(98, "b")},
			func(h locktest.History) { h[1] = elsewhere(acquired(101, "c", 2, 100)); h[2] = held(103, "b") },
			illegal,
		},
		{"held, though released", locktest.History{acquired(0, "a", 1, 100), told(2, locktest.Release, locktest.OK), acquired(4, "b", 2, 100)}, func(h locktest.History) { h[2] = held(4, "b") }, illegal},
		{"held by oneself", locktest.History{acquired(0, "a", 1, 100), held(2, "b")}, func(h locktest.History) { h[1] = held(2, "a") }, illegal},
		{
			"renewal after the lapse",
			locktest.History{acquired(0, "a", 1, 100), renewed(99, 100)},
			func(h locktest.History) { h[1] = renewed(100, 100) },
			illegal,
		},
		{
			"renewal refused while live",
			locktest.History{acquired(0, "a", 1, 100), told(110, locktest.Renew, locktest.Lost)},
			func(h locktest.History) {
				h[1] = told(50, locktest.Renew, locktest.Lost)
			},
			illegal,
		},
		{
			"renewal refused while live by the backend's clock",
			locktest.History{acquired(0, "a", 1, 100), told(150, locktest.Renew, locktest.Lost), elsewhere(acquired(152, "c", 2, 100))},
			func(h locktest.History) {
				h[2].Answer.Acquired, h[2].Answer.Expires = clock0+50_000, clock0+150_000
			},
			illegal,
		},
		{
			"renewal that shortens",
			locktest.History{acquired(0, "a", 1, 100), renewed(50, 100)},
			func(h locktest.History) { h[1] = renewed(50, 20) },
			illegal,
		},
		{
			"re-entry that shortens",
			locktest.History{acquired(0, "a", 1, 100), acquired(50, "a", 2, 100)},
			func(h locktest.History) { h[1] = acquired(50, "a", 2, 20) },
			illegal,
		},
		{
			"renewal of the token before re-entry",
			locktest.History{acquired(0, "a", 1, 100), acquired(2, "a", 2, 100), told(4, locktest.Renew, locktest.Lost)},
			func(h locktest.History) { h[2] = renewed(4, 100) },
			illegal,
		},
		{
			"release of a foreign token",
			locktest.History{acquired(0, "a", 1, 100), acquired(100, "b", 2, 100), told(102, locktest.Release, locktest.Stale)},
			result(2, locktest.OK), illegal,
		},
		{"release of one's own called stale", locktest.History{acquired(0, "a", 1, 100), told(2, locktest.Release, locktest.OK)}, result(1, locktest.Stale), illegal},
		{"released twice", locktest.History{acquired(0, "a", 1, 100), told(2, locktest.Release, locktest.OK), told(4, locktest.Release, locktest.Stale)}, result(2, locktest.OK), illegal},
		{
			"revoke of a moved token called REVOKED",
			locktest.History{acquired(0, "a", 1, 100), acquired(2, "a", 2, 100), revoked(4, locktest.Moved, "a", 2)},
			func(h locktest.History) { h[2] = revoked(4, locktest.OK, "a", 1) },
			illegal,
		},
		{
			"TOKEN_MOVED that names the very token",
			locktest.History{acquired(0, "a", 1, 100), acquired(2, "a", 2, 100), revoked(4, locktest.Moved, "a", 2)},
			token(2, 1), illegal,
		},
		{
			"revoke of a held key called NOT_HELD",
			locktest.History{acquired(0, "a", 1, 100), revoked(2, locktest.OK, "a", 1), revoked(4, locktest.NotHeld, "", 0)},
			func(h locktest.History) { h[1] = revoked(2, locktest.NotHeld, "", 0) },
			illegal,
		},
		{"a revoked holder renews", locktest.History{acquired(0, "a", 1, 100), revoked(2, locktest.OK, "a", 1), told(4, locktest.Renew, locktest.Lost)}, func(h locktest.History) { h[2] = renewed(4, 100) }, illegal},
		{
			"an acquire called failed, and later seen to hold",
			locktest.History{lostAcquire(0, "a", 100), shown(5, "a", 1, 0)},
			result(0, locktest.Failed), illegal,
		},
		{
			"a lost acquire that would have had to wait for the end of another's lease",
			locktest.History{acquired(0, "a", 1, 100), lostAcquire(50, "b", 100), shown(110, "b", 2, 101)},
			func(h locktest.History) { h[2] = shown(60, "b", 2, 51) },
			illegal,
		},
		{
			"a lost acquire's lease cut by the next",
			locktest.History{lostAcquire(0, "a", 100), shown(5, "a", 1, 0), acquired(100, "b", 2, 100)},
			func(h locktest.History) { h[2] = acquired(90, "b", 2, 100) },
			illegal,
		},
		{"a lost release that frees, then the holder renews", locktest.History{
			acquired(0, "a", 1, 100), told(2, locktest.Release, locktest.Unknown), acquired(4, "b", 2, 100),
		}, func(h locktest.History) { h[1].Token = 7 }, illegal},
		{"an entry vanishes", locktest.History{acquired(0, "a", 1, 100), shown(2, "a", 1, 0)}, func(h locktest.History) { h[1] = notFound(2) }, illegal},
		{"an entry that was never granted", locktest.History{notFound(2)}, func(h locktest.History) { h[0] = shown(2, "a", 1, 0) }, illegal},
		{"lapsed before its time", locktest.History{acquired(0, "a", 1, 100), shown(2, "a", 1, 0)}, func(h locktest.History) { h[1].Answer.Expired = true }, locktest.ErrClock},
	}
}

// Each history is one that the fenced mutex explains, and is refused, for the
// reason that is meant, once a single answer in it is another.
//
// Clauses: K-1.3, K-1.6, K-2.1, K-2.2, K-2.6, K-2.7, K-2.9, K-2.10, K-3.1
// Mutation: any condition of the model; take out one, and its row is accepted.
func TestModelTellsRightFromWrong(t *testing.T) {
	t.Parallel()
	for _, s := range scripts() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			if verdict := locktest.Check(s.good, postgresRules()); verdict.Err != nil {
				t.Errorf("the right history is refused: %v", verdict.Err)
			}
			bad := append(locktest.History{}, s.good...)
			s.mutate(bad)
			if verdict := locktest.Check(bad, postgresRules()); !errors.Is(verdict.Err, s.want) {
				t.Errorf("the wrong history: %v, want %v", verdict.Err, s.want)
			}
		})
	}
}

// A backend that declares a tolerance, counters by key or leases that it alone
// knows is judged by that, and still not believed everything.
func TestRulesThatDiffer(t *testing.T) {
	t.Parallel()
	tolerant := locktest.RulesOf(lockstore.Capabilities{OwnTTL: true, Tolerance: 1_000_000_000})
	untimed := locktest.RulesOf(lockstore.Capabilities{Sessions: true, GlobalTokens: true})
	timeless := func(h ...locktest.Op) locktest.History {
		for i := range h {
			h[i].Answer.Acquired, h[i].Answer.Expires = 0, 0
		}
		return h
	}
	for name, c := range map[string]struct {
		history locktest.History
		rules   locktest.Rules
		want    error
	}{
		"renewed within the tolerance":           {locktest.History{acquired(0, "a", 1, 100), renewed(1099, 100)}, tolerant, nil},
		"renewed after it":                       {locktest.History{acquired(0, "a", 1, 100), renewed(1100, 100)}, tolerant, locktest.ErrNotLinearizable},
		"taken over within it":                   {locktest.History{acquired(0, "a", 1, 100), acquired(1099, "b", 2, 100)}, tolerant, locktest.ErrNotLinearizable},
		"taken over after it":                    {locktest.History{acquired(0, "a", 1, 100), acquired(1100, "b", 2, 100)}, tolerant, nil},
		"a lapsed one released as stale":         {locktest.History{acquired(0, "a", 1, 100), told(1200, locktest.Release, locktest.Stale)}, tolerant, nil},
		"one counter for each key":               {locktest.History{acquired(0, "a", 1, 100), elsewhere(acquired(2, "b", 1, 100))}, tolerant, nil},
		"one counter that stands still":          {locktest.History{acquired(0, "a", 1, 100), told(2, locktest.Release, locktest.OK), acquired(4, "b", 1, 100)}, tolerant, locktest.ErrTokenRepeated},
		"taken over when trust was over":         {timeless(acquired(0, "a", 1, 100), acquired(100, "b", 2, 100)), untimed, nil},
		"taken over before":                      {timeless(acquired(0, "a", 1, 100), acquired(90, "b", 2, 100)), untimed, locktest.ErrNotLinearizable},
		"gone when trust was over":               {timeless(acquired(0, "a", 1, 100), notFound(100)), untimed, nil},
		"gone before":                            {timeless(acquired(0, "a", 1, 100), notFound(90)), untimed, locktest.ErrNotLinearizable},
		"without sessions nobody enters again":   {timeless(without(acquired(0, "a", 1, 100)), without(acquired(2, "a", 2, 100))), untimed, locktest.ErrNotLinearizable},
		"with a session its holder enters again": {timeless(acquired(0, "a", 1, 100), acquired(2, "a", 2, 100)), untimed, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := locktest.Check(c.history, c.rules).Err; !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
				t.Errorf("%v, want %v", err, c.want)
			}
		})
	}
}

func without(o locktest.Op) locktest.Op {
	o.Session, o.Answer.Session = "", ""
	return o
}

// A history survives its file, and the page that shows it can be drawn.
func TestHistoryFile(t *testing.T) {
	t.Parallel()
	var want locktest.History
	for _, s := range scripts() {
		want = append(want, s.good...)
	}
	var file, page bytes.Buffer
	if err := want.Write(&file); err != nil {
		t.Fatal(err)
	}
	got, err := locktest.ReadHistory(&file)
	if err != nil || !cmp.Equal(got, want) {
		t.Errorf("read back: %v, %s", err, cmp.Diff(want, got))
	}
	if _, err := locktest.ReadHistory(strings.NewReader(`{"client":1,"king":"acquire"}`)); err == nil {
		t.Error("a line that is no operation is read")
	}
	if err := locktest.Check(want[:3], postgresRules()).Visualize(&page); err != nil || !strings.Contains(page.String(), "<html") {
		t.Errorf("the page: %v", err)
	}
}

// The histories in testdata, and the one that DLOCKCTL_HISTORY names, are judged
// again: refused is what the file's name begins with, explained is the rest.
//
// Mutation: accept everything in Check.
func TestRecheck(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.jsonl")
	if err != nil || len(files) < 2 {
		t.Fatalf("%d histories in testdata, %v", len(files), err)
	}
	if file := os.Getenv("DLOCKCTL_HISTORY"); file != "" {
		files = append(files, file)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			text, err := os.Open(file)
			if err != nil {
				t.Fatal(err)
			}
			defer text.Close()
			history, err := locktest.ReadHistory(text)
			if err != nil {
				t.Fatal(err)
			}
			verdict := locktest.Check(history, postgresRules())
			if refuse := strings.HasPrefix(filepath.Base(file), "refused"); (verdict.Err != nil) != refuse {
				t.Errorf("refused %t, want %t: %v", verdict.Err != nil, refuse, verdict.Err)
			}
		})
	}
}
