package counters_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/syncguard"
	"github.com/dlockctl/dlockctl/internal/restore"
	"github.com/dlockctl/dlockctl/internal/restore/counters"
)

// A counter is made or raised for what SyncGuard calls a lock, and for nothing else: not
// for names of another form, and not for an audit row that tells of no fence.
//
// Clauses: K-10.2, K-7.2
// Mutation: call every counter ours in LockOfCounter, or ask audited.known or ours no more in sight.assess.
func TestNoPhantomCounters(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 16)
	w.counter(t, "a", 5)
	w.counter(t, "cafe\u0301", 7)
	w.exec(t, `INSERT INTO syncguard_fence_counters VALUES ('odd', -3, 'odd'), ('fence:', 2, '')`)
	w.lock(t, "e\u0301", "000000000000009", 60)
	w.lock(t, strings.Repeat("x", 513), "0000000000000-5", 60)
	w.exec(t, `INSERT INTO dlockctl_syncguard_audit (action, key, fence, operator, reason, details) VALUES
		('revoke', 'unreadable', 0, 'op', 'why', '{}'), ('revoke', 'o' || U&'\0308', 8, 'op', 'why', '{}'), ('revoke', '', 8, 'op', 'why', '{}')`)
	before := w.counters(t)
	p := plan(t, w, nil)
	if p.Outcome != restore.Advanced || p.Foreign != 5 || p.Raise != 1 || len(p.Keys) != 6 || p.Held != 0 || p.Behind != 0 {
		t.Errorf("the plan is %+v", p)
	}
	result := forward(t, w, options(nil))
	if result.Outcome != restore.Advanced || result.Raised != 1 || !result.Verification.Safe {
		t.Errorf("fast-forward says %+v", result)
	}
	before["fence:a"] = 5 + margin
	if diff := cmp.Diff(before, w.counters(t)); diff != "" {
		t.Errorf("counters (-want +got):\n%s", diff)
	}
	if again := forward(t, w, options(nil)); again.Outcome != restore.Safe {
		t.Errorf("a rerun says %s", again.Outcome)
	}
}

// What stands in a lock's row and is no fence is settled by the operator's word alone,
// be a file's fence the higher one, and be the file called operator.
//
// Clauses: K-10.2, K-7.2
// Mutation: settle by a file too in add, or by the source's name; forget in add that the operator has spoken.
func TestOnlyTheOperatorSettles(t *testing.T) {
	t.Parallel()
	for _, fence := range []string{"0000000000000-5", "000000000000000", "42", "NULL"} {
		w := newWorld(t, 16)
		w.counter(t, "odd", 4)
		w.exec(t, `ALTER TABLE syncguard_locks ALTER COLUMN fence DROP NOT NULL`)
		w.lock(t, "odd", fence, 60)
		w.exec(t, `UPDATE syncguard_locks SET fence = NULL WHERE fence = 'NULL'`)
		told := counters.Observations{}
		if err := told.ReadFile(strings.NewReader("key,token\nodd,900\n"), "operator"); err != nil {
			t.Fatal(err)
		}
		if result := forward(t, w, options(told)); result.Outcome != restore.RefusedEvidence || w.counters(t)["fence:odd"] != 4 {
			t.Errorf("%s, with a file: %s, counters %v", fence, result.Outcome, w.counters(t))
		}
		for _, first := range []bool{true, false} { // the file is read after the flags; either order will do
			told := counters.Observations{}
			if first {
				say(t, told, "odd", 8)
			}
			readFile(t, told, "key,token\nodd,900\n")
			if !first {
				say(t, told, "odd", 8)
			}
			p := plan(t, w, told)
			if p.Outcome != restore.Advanced || p.Keys[0].Target != 900+margin || p.Keys[0].ObservedIn != "export.csv" {
				t.Errorf("%s, with the operator's word: %s, %+v", fence, p.Outcome, p.Keys)
			}
		}
	}
}

// A fence above the last one is refused whoever tells of it; where it stands in a row or
// in the audit, which nobody can correct, the operator's word goes on without it.
//
// Clauses: K-7.2
// Mutation: count what is above the limit of a key that is settled, or count it of none.
func TestForgedWhereItStands(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 16)
	w.counter(t, "row", 4)
	w.lock(t, "row", "900000000000001", 60)
	w.counter(t, "audit", 4)
	w.exec(t, `INSERT INTO dlockctl_syncguard_audit (action, key, fence, operator, reason) VALUES ('revoke', 'audit', 900000000000001, 'op', 'why')`)
	told := counters.Observations{}
	readFile(t, told, "key,token\nrow,7\naudit,7\n")
	p := plan(t, w, told)
	if p.Outcome != restore.RefusedEvidence || !strings.Contains(p.Why[0], `"audit", "row"`) || !strings.Contains(p.Fixes[0], "--observed KEY=N") {
		t.Errorf("%s, why %v, fixes %v", p.Outcome, p.Why, p.Fixes)
	}
	say(t, told, "row", 5)
	say(t, told, "audit", 6)
	if result := forward(t, w, options(told)); result.Outcome != restore.Advanced || w.counters(t)["fence:row"] != 7+margin || w.counters(t)["fence:audit"] != 7+margin {
		t.Errorf("%s, why %v, counters %v", result.Outcome, result.Why, w.counters(t))
	}
}

// A counter's name in the place of a key would make another counter, and leave the one that was
// meant where it stands. A lock that is really called so is told of by a file.
//
// Clauses: K-7.2
// Mutation: let misnamed find nothing, or also what stands or is told by a file.
func TestCounterNamedAsKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 16)
	w.counter(t, "a", 5)
	w.counter(t, "b", 6)
	w.counter(t, "fence:b", 7)
	told := counters.Observations{}
	say(t, told, "fence:a", 900)
	say(t, told, "fence:b", 901)
	say(t, told, "fence:c", 902)
	p := plan(t, w, told)
	if p.Outcome != restore.RefusedEvidence || len(p.Why) != 1 || !strings.Contains(p.Why[0], `--observed names "fence:a", a counter`) {
		t.Errorf("%s, why %q", p.Outcome, p.Why)
	}
	told = counters.Observations{}
	readFile(t, told, "fence_key,fence\nfence:fence:a,900\n")
	say(t, told, "fence:b", 901)
	if result := forward(t, w, options(told)); result.Outcome != restore.Advanced || w.counters(t)["fence:fence:a"] != 900+margin || w.counters(t)["fence:fence:b"] != 901+margin {
		t.Errorf("%s, why %q, counters %v", result.Outcome, result.Why, w.counters(t))
	}
}

// The operator names a lock as SyncGuard would, or is told why not.
//
// Clauses: K-10.2
// Mutation: normalise by norm.NFC alone in Say, or refuse what CounterKey does.
func TestObservedKeys(t *testing.T) {
	t.Parallel()
	told := counters.Observations{}
	say(t, told, "cafe\u0301", 7)
	say(t, told, "line\nbreak", 8)
	const unassigned = "\U00011382\U000113c9" // a newer Unicode composes them
	marks := "a" + strings.Repeat("\u0301", 31)
	say(t, told, unassigned, 9)
	say(t, told, marks, 10)
	want := counters.Observations{
		"fence:caf\u00e9":     {Fence: 7, Source: counters.SourceOperator, Settled: true},
		"fence:line\nbreak":   {Fence: 8, Source: counters.SourceOperator, Settled: true},
		"fence:" + unassigned: {Fence: 9, Source: counters.SourceOperator, Settled: true},
		"fence:" + marks:      {Fence: 10, Source: counters.SourceOperator, Settled: true},
	}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for key, part := range map[string]string{
		"": "key is empty", strings.Repeat("x", 513): "shorten it to the 512", "a\xff": "is not text",
	} {
		if err := told.Say(key, 1); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q: %v, want %q", key, err, part)
		}
	}
}

// Tables that are not as SyncGuard makes them are refused before anything is read, by
// the rule of the lock verbs.
//
// Clauses: K-10.2
// Mutation: leave CheckTables or CheckActs out of Open.
func TestOpenRefusesOtherTables(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 16)
	w.exec(t, `ALTER TABLE syncguard_fence_counters DROP CONSTRAINT syncguard_fence_counters_pkey`)
	for fence, fix := range map[string]string{"Syncguard_Fence_Counters": "name it syncguard_fence_counters", "": "ADD PRIMARY KEY (fence_key)", "none": "migrate up --target syncguard"} {
		names, err := syncguard.NamesOf(syncguard.Options{FenceTable: fence})
		if err != nil {
			t.Fatal(err)
		}
		_, err = counters.Open(t.Context(), counters.StoreOptions{Config: w.db.Config(t, "super"), Names: names})
		if unsafe, _ := errors.AsType[*lockstore.UnsafeError](err); unsafe == nil || !strings.Contains(unsafe.Fix, fix) {
			t.Errorf("counters in %q: %v, want the fix %q", fence, err, fix)
		}
	}
	w.exec(t, `ALTER TABLE syncguard_fence_counters ADD PRIMARY KEY (fence_key), ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
		ALTER TABLE syncguard_fence_counters OWNER TO t_owner; GRANT ALL ON syncguard_locks TO t_owner`)
	names, err := syncguard.NamesOf(syncguard.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = counters.Open(t.Context(), counters.StoreOptions{Config: w.db.Config(t, "t_owner"), Names: names})
	if unsafe, _ := errors.AsType[*lockstore.UnsafeError](err); unsafe == nil || !strings.Contains(unsafe.Fix, "DISABLE ROW LEVEL SECURITY") {
		t.Errorf("counters that are hidden: %v", err)
	}
}
