package counters_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/internal/restore"
	"github.com/dlockctl/dlockctl/internal/restore/counters"
)

// setBack is a database that was restored: a counter that is whole, one behind its
// lock, one that is lost, one of which the audit, an export or the operator know more,
// and one below 0.
func setBack(t *testing.T, w *world) counters.Observations {
	t.Helper()
	w.counter(t, "whole", 7)
	w.lock(t, "whole", "000000000000007", 60)
	w.counter(t, "behind", 3)
	w.lock(t, "behind", "000000000000042", -60)
	w.lock(t, "lost", "000000000000009", -60)
	w.counter(t, "revoked", 1)
	w.exec(t, `INSERT INTO dlockctl_syncguard_audit (action, key, fence, operator, reason) VALUES ('revoke', 'revoked', 50, 'op', 'why')`)
	w.counter(t, "exported", 5)
	w.counter(t, "negative", -6)
	told := counters.Observations{}
	readFile(t, told, "key,token\nexported,900\nwhole,6\n")
	say(t, told, "unknown", 70)
	return told
}

// Every counter lands a margin above all that is known of its key, none is lowered,
// each has a record, and a rerun changes nothing.
//
// Clauses: K-10.2, K-7.2, K-7.3, K-7.7
// Mutation: leave a source out of assess, or greatest out of raise.sql.
func TestFastForward(t *testing.T) {
	t.Parallel()
	for _, major := range pgtest.Majors() {
		w := newWorld(t, major)
		told := setBack(t, w)
		found, err := counters.Verify(t.Context(), w.store(t, nil), options(told))
		if err != nil {
			t.Fatal(err)
		}
		ids := []string{}
		for _, f := range found.Findings {
			ids = append(ids, f.ID)
		}
		slices.Sort(ids)
		want := []string{"counter_behind", "counter_behind", "counter_behind", "counter_missing", "counter_missing", "counter_negative"}
		if diff := cmp.Diff(want, ids); diff != "" || found.Safe {
			t.Errorf("before, verify says (-want +got):\n%s", diff)
		}
		result := forward(t, w, options(told))
		if result.Outcome != restore.Advanced || result.Raised != 7 || result.Verification == nil || !result.Verification.Safe {
			t.Fatalf("fast-forward says %+v", result)
		}
		after := map[string]int64{
			"fence:whole": 7 + margin, "fence:behind": 42 + margin, "fence:lost": 9 + margin, "fence:revoked": 50 + margin,
			"fence:exported": 900 + margin, "fence:unknown": 70 + margin, "fence:negative": margin,
		}
		if diff := cmp.Diff(after, w.counters(t)); diff != "" {
			t.Errorf("counters (-want +got):\n%s", diff)
		}
		if n := w.number(t, `SELECT count(*) FROM dlockctl_syncguard_audit WHERE action = 'raise_counter'`); n != 7 {
			t.Errorf("%d records of a raise", n)
		}
		if again := forward(t, w, options(told)); again.Outcome != restore.Safe || again.Raised != 0 {
			t.Errorf("a rerun says %s, raised %d", again.Outcome, again.Raised)
		}
		if diff := cmp.Diff(after, w.counters(t)); diff != "" {
			t.Errorf("a rerun moved counters (-want +got):\n%s", diff)
		}
		say(t, told, "whole", 2*margin)
		w.counter(t, "lost", 9+margin+1)
		if more := forward(t, w, options(told)); more.Raised != 2 || w.counters(t)["fence:whole"] != 3*margin || w.counters(t)["fence:lost"] != 10+2*margin {
			t.Errorf("what was observed and granted since: raised %d, %v", more.Raised, w.counters(t))
		}
		opts := options(told)
		opts.Again = true
		if all := forward(t, w, opts); all.Raised != 7 {
			t.Errorf("--again raised %d", all.Raised)
		}
	}
}

// What is refused changes nothing, not even the counters that could be raised.
//
// Clauses: K-10.2, K-7.2
// Mutation: drop a case of refuse, or let planOf go on with the others.
func TestRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 16)
	w.counter(t, "fine", 1)
	none := counters.Observations{}
	told := func(key string, fence int64) counters.Observations {
		o := counters.Observations{}
		say(t, o, key, fence)
		return o
	}
	for name, tt := range map[string]struct {
		plant    func()
		observed counters.Observations
		want     restore.Outcome
		why, fix string
	}{
		"forged":     {func() {}, told("fine", 900_000_000_000_001), restore.RefusedEvidence, "above 900000000000000", "correct the file"},
		"no room":    {func() { w.counter(t, "hot", 900_000_000_000_000-margin+1) }, none, restore.RefusedConfig, `for "hot"`, "--margin"},
		"unreadable": {func() { w.counter(t, "odd", 4); w.lock(t, "odd", "0000000000000-5", 60) }, none, restore.RefusedEvidence, `for "odd"`, "--observed KEY=N"},
		"no audit":   {func() { w.exec(t, `DROP TABLE dlockctl_syncguard_audit`) }, none, restore.RefusedConfig, "no table to record it in", "--audit"},
	} {
		w.exec(t, "CREATE TABLE saved_locks AS TABLE syncguard_locks; CREATE TABLE saved_counters AS TABLE syncguard_fence_counters; ALTER TABLE dlockctl_syncguard_audit RENAME TO saved_audit; CREATE TABLE dlockctl_syncguard_audit (LIKE saved_audit INCLUDING ALL)")
		tt.plant()
		before := w.counters(t)
		result := forward(t, w, options(tt.observed))
		if result.Outcome != tt.want || result.Step != counters.StepEvidence || !strings.Contains(strings.Join(result.Why, ";"), tt.why) || !strings.Contains(strings.Join(result.Fixes, ";"), tt.fix) {
			t.Errorf("%s: %s at %s, why %v, fixes %v", name, result.Outcome, result.Step, result.Why, result.Fixes)
		}
		if diff := cmp.Diff(before, w.counters(t)); diff != "" {
			t.Errorf("%s: counters moved:\n%s", name, diff)
		}
		w.exec(t, "TRUNCATE syncguard_locks, syncguard_fence_counters; INSERT INTO syncguard_fence_counters TABLE saved_counters; DROP TABLE saved_locks, saved_counters; DROP TABLE IF EXISTS dlockctl_syncguard_audit; ALTER TABLE saved_audit RENAME TO dlockctl_syncguard_audit")
	}
	// The operator's word stands for a row that cannot be read; an exhausted key issues
	// nothing, and keeps nobody else from being raised.
	w.counter(t, "odd", 4)
	w.lock(t, "odd", "0000000000000-5", 60)
	w.counter(t, "spent", 900_000_000_000_000)
	result := forward(t, w, options(told("odd", 8)))
	if result.Outcome != restore.Advanced || result.Plan.Exhausted != 1 || w.counters(t)["fence:odd"] != 8+margin || w.counters(t)["fence:spent"] != 900_000_000_000_000 {
		t.Errorf("%s, %v, counters %v", result.Outcome, result.Why, w.counters(t))
	}
}

// Whoever dies behind any statement has raised all counters or none, and the next run
// completes it, with one record for each.
//
// Clauses: K-7.4, K-10.2
// Mutation: commit behind the first raise.
func TestDeathBehindEveryStatement(t *testing.T) {
	t.Parallel()
	errDies := errors.New("died")
	names := []string{}
	for n := 0; n == 0 || n < len(names); n++ {
		w := newWorld(t, 16)
		told := setBack(t, w)
		before := w.counters(t)
		ran := []string{}
		_, err := counters.FastForward(t.Context(), w.store(t, func(_ context.Context, name string) error {
			if ran = append(ran, name); len(ran) > n {
				return errDies
			}
			return nil
		}), options(told))
		if !errors.Is(err, errDies) {
			t.Fatalf("statement %d: %v", n, err)
		}
		if n == 0 {
			names = []string{"raise: lock", "raise: raise", "raise: record", "raise: record the run", "raise: commit"}
		}
		if diff := cmp.Diff(names[:n+1], ran); diff != "" {
			t.Fatalf("statements (-want +got):\n%s", diff)
		}
		committed := names[n] == "raise: commit"
		if diff := cmp.Diff(before, w.counters(t)); (diff == "") == committed {
			t.Errorf("dead behind %s, counters:\n%s", names[n], diff)
		}
		want := restore.Advanced
		if committed {
			want = restore.Safe
		}
		if result := forward(t, w, options(told)); result.Outcome != want || w.counters(t)["fence:behind"] != 42+margin {
			t.Errorf("after a death behind %s: %s, counters %v", names[n], result.Outcome, w.counters(t))
		}
		if n := w.number(t, `SELECT count(*) FROM dlockctl_syncguard_audit WHERE action IN ('raise_counter', 'fast_forward')`); n != 8 {
			t.Errorf("%d records", n)
		}
	}
}

// An acquire of the library that is under way is waited for, named when it takes too
// long, and its fence is counted once it has ended; one that comes later waits.
//
// Clauses: K-7.4, K-2.11
// Mutation: read before the lock is taken in raise, or take a weaker lock.
func TestAcquireUnderWay(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 16)
	w.counter(t, "busy", 10)
	acquire := w.db.Conn(t, "super")
	draw := func(sql string) {
		t.Helper()
		if _, err := acquire.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	draw(`BEGIN`)
	draw(`UPDATE syncguard_fence_counters SET fence = 5000 WHERE fence_key = 'fence:busy'`)
	result, err := counters.FastForward(t.Context(), w.impatient(t), options(nil))
	if err != nil || result.Outcome != restore.LockTimeout || len(result.Blockers) != 1 || !strings.Contains(result.Fixes[0], "Never terminate") {
		t.Fatalf("behind an open acquire: %+v, %v", result, err)
	}
	draw(`COMMIT`)
	// It commits between the plan and the lock: what counts is what is read behind it.
	draw(`BEGIN`)
	draw(`UPDATE syncguard_fence_counters SET fence = 6000 WHERE fence_key = 'fence:busy'`)
	ended := make(chan error, 1)
	opts := options(nil)
	opts.Progress = func(step restore.Step) {
		if step != counters.StepRaise {
			return
		}
		go func() {
			ended <- w.waitsThenCommit(t, acquire.PgConn().PID(), func() error { _, err := acquire.Exec(t.Context(), `COMMIT`); return err })
		}()
	}
	if result := forward(t, w, opts); result.Outcome != restore.Advanced {
		t.Errorf("%+v", result)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if got := w.counters(t)["fence:busy"]; got != 6000+margin {
		t.Errorf("the counter stands at %d", got)
	}
}

// A record of another instance or timeline is no word that this one was raised.
//
// Clauses: K-7.6, K-7.2
// Mutation: leave the identity out of the comparison in assess.
func TestRecordOfAnotherTimeline(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 16)
	w.counter(t, "a", 1)
	forward(t, w, options(nil))
	if p := plan(t, w, nil); p.Outcome != restore.Safe || p.Moved {
		t.Fatalf("after a fast-forward: %s, moved %v", p.Outcome, p.Moved)
	}
	w.exec(t, `SET session_replication_role = replica; ALTER TABLE dlockctl_syncguard_audit DISABLE TRIGGER append_only;
		UPDATE dlockctl_syncguard_audit SET details = jsonb_set(details, '{timeline}', '99')`)
	if p := plan(t, w, nil); p.Outcome != restore.Advanced || !p.Moved || p.Keys[0].Target != 1+2*margin {
		t.Errorf("on another timeline: %s, moved %v, %+v", p.Outcome, p.Moved, p.Keys)
	}
	// A counter that somebody has set back below what was recorded.
	w.counter(t, "a", 5)
	if p := plan(t, w, nil); p.Behind != 1 || p.Keys[0].Observed != 1+margin {
		t.Errorf("set back below the record: behind %d, %+v", p.Behind, p.Keys)
	}
}

// Nothing is lowered, whatever stands there by then.
//
// Clauses: K-10.2
// Mutation: take greatest out of raise.sql.
func TestRaiseNeverLowers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 16)
	w.counter(t, "a", 500)
	for name, sql := range counters.Queries() {
		if _, err := w.conn.Prepare(t.Context(), name, sql); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := w.conn.Exec(t.Context(), "raise", []string{"fence:a", "fence:b"}, []int64{3, 3}, []string{"a", "b"}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]int64{"fence:a": 500, "fence:b": 3}, w.counters(t)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := fmt.Sprint(w.number(t, `SELECT count(*) FROM syncguard_fence_counters WHERE key_debug = 'b'`)); got != "1" {
		t.Errorf("%s rows tell their key", got)
	}
}
