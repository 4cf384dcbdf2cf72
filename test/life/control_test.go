package life_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/paystore/rail"
)

// mutation is a statement that says something else on its way to paydb, or a guard
// that is taken out of it.
type mutation struct {
	// part of the one statement that begins with statement becomes otherwise.
	statement, part, otherwise string
	disable                    []string // "table trigger"
}

// The machine sees each of these, and so it is not blind.
//
// Clauses: K-4.1, K-4.2, K-4.7, K-5.1, K-5.2, K-5.3
// Mutation: take the comparison of the accounts out of compare.
func TestLifeTurnsRed(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]mutation{
		"one grant posts twice":               {statement: "UPDATE account", part: "fence         < $2", otherwise: "fence         <= $2"},
		"one grant is forwarded twice":        {statement: "INSERT INTO rail_high_water", part: "highest_token < EXCLUDED", otherwise: "highest_token <= EXCLUDED"},
		"own work compares no claim":          {statement: "UPDATE payout", part: "state = 'CLAIMED' AND claim_token = $2\n", otherwise: "state = 'CLAIMED' AND $2::bigint > 0\n"},
		"the clearing account gets nothing":   {statement: "UPDATE account", part: "balance_minor + $1", otherwise: "balance_minor + 0 * $1"},
		"claims are forgotten":                {disable: []string{"payout payout_claim_record"}},
		"the rail's answer is not waited for": {disable: []string{"payout payout_rail_guard"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, rewritten := m.bench(t)
			if b.hunt(t) == "" {
				t.Error("nothing showed")
			}
			if m.statement != "" && rewritten.Load() == 0 {
				t.Error("no statement was changed: the mutation has gone stale")
			}
		})
	}
}

// bench is one whose paydb has the mutation.
func (m mutation) bench(t *testing.T) (b bench, rewritten *atomic.Int64) {
	t.Helper()
	b, rewritten = bench{world: newWorld(t, 16), seen: map[string]int{}}, &atomic.Int64{}
	w := newWire(t, b.dbs.Pay.Server)
	w.rewrite = func(sql string) string {
		if m.statement == "" || !strings.HasPrefix(sql, m.statement) || !strings.Contains(sql, m.part) {
			return sql
		}
		rewritten.Add(1)
		return strings.Replace(sql, m.part, m.otherwise, 1)
	}
	b.stores = b.open(t, w.config)
	b.disable(t, m.disable)
	return b, rewritten
}

// disable takes guards out, once everybody is connected: who opens paydb looks.
func (w world) disable(t *testing.T, guards []string) {
	t.Helper()
	for _, guard := range guards {
		table, trigger, _ := strings.Cut(guard, " ")
		w.exec(t, fmt.Sprintf(`ALTER TABLE %s DISABLE TRIGGER %s`, table, trigger))
	}
}

// mismatch is what the machine found, outside of rapid.Check.
type mismatch string

// hunt walks until something does not match, under seeds that are always the same.
func (b bench) hunt(t *testing.T) (wrong string) {
	t.Helper()
	walk := rapid.Custom(func(r *rapid.T) (wrong string) {
		m := newMachine(t, b, func(format string, args ...any) { panic(mismatch(fmt.Sprintf(format, args...))) })
		defer m.close()
		defer func() {
			switch found := recover().(type) {
			case nil:
			case mismatch:
				wrong = string(found)
			default:
				panic(found)
			}
		}()
		m.walk(r)
		m.walk(r)
		return ""
	})
	for seed := 1; seed <= 200 && wrong == ""; seed++ {
		if wrong = walk.Example(seed); wrong != "" {
			t.Logf("seed %d: %s", seed, wrong)
		}
	}
	return wrong
}

// Deaths at the points between what belongs together show when it comes apart.
//
// Clauses: K-4.7, K-4.11, K-5.3
// Mutation: take the rail's keys out of problems.
func TestCrashesTurnRed(t *testing.T) {
	t.Parallel()
	named := func(name string) scenario {
		all := scenarios()
		return all[slices.IndexFunc(all, func(s scenario) bool { return s.name == name })]
	}
	for name, control := range map[string]struct {
		scenario
		// commitsBefore begins the statement before which a transaction is cut in two.
		commitsBefore string
		disable       []string
		around        func(rail.Rail) rail.Rail
		want          string
	}{
		"a posting in two transactions": {
			scenario: named("payout"), commitsBefore: "UPDATE payout\n   SET state = 'POSTED'",
			disable: []string{"ledger_entry ledger_posting_guard", "payout payout_posting_guard"}, want: "the leg set of",
		},
		"forwarded before it is written down": {
			scenario: payment(hasty), around: func(r rail.Rail) rail.Rail { return told{r} }, want: "more than one request",
		},
		"evidence apart from the move":  {scenario: named("resolve NOT_FOUND"), commitsBefore: "UPDATE payout", want: "2 resolutions"},
		"a raise apart from its record": {scenario: named("raise fence"), commitsBefore: "INSERT INTO account_fence_raise", want: "0 raises"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCrashes(t, control.scenario)
			c.around = control.around
			if control.commitsBefore != "" {
				c.through = func(w *wire) {
					w.split = func(sql string) bool { return strings.HasPrefix(sql, control.commitsBefore) }
				}
			}
			if c.disable(t, control.disable); len(control.disable) > 0 {
				c.purpose = paystore.Reading // or nobody would get in
			}
			statements := c.whole(t)
			var problems []string
			for at := len(statements); at > 0 && len(problems) == 0; at-- {
				problems = c.point(t, statements, at, before)
			}
			if !strings.Contains(strings.Join(problems, "\n"), control.want) {
				t.Errorf("%q, want %q among them", problems, control.want)
			}
			t.Log(problems)
		})
	}
}

// hasty are the steps of a proxy that forwards first, and writes the attempt when it
// has the answer.
func hasty(ctx context.Context, h hand, o order) []func() error {
	all := steps(ctx, h, o)
	write := all[4]
	all[4] = func() error {
		if h.forward != nil {
			if _, err := h.forward.Submit(ctx, rail.Request{Key: o.key}); err != nil {
				return err
			}
		}
		return write()
	}
	return all
}

// told is a rail that was asked already: it says what it said.
type told struct{ rail.Rail }

func (r told) Submit(ctx context.Context, req rail.Request) (rail.Answer, error) {
	return r.Status(ctx, req.Key)
}
