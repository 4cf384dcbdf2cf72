package rewind_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dlockctl/dlockctl/internal/devenv/cluster"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/internal/restore"
)

// auto is the service's name in the audit.
const auto = "lock-server (restore.auto)"

// byItself is rescued without a person: lock-server's policy moves lockdb forward.
func (l *life) byItself(t *testing.T, lockdb place) (target lockstore.Token) {
	t.Helper()
	stores := l.stores(t, lockdb)
	state, err := stores.Mark.Read()
	if err != nil {
		t.Fatal(err)
	}
	out, err := restore.AutoSafe(t.Context(), stores, restore.AutoOptions{Operator: auto})
	if err != nil || out.Verdict != restore.AutoAdvanced || !out.Result.GateOpen {
		t.Fatalf("%+v, %v", out, err)
	}
	target = out.Result.To
	if target <= l.highest || target <= state.Ceiling {
		t.Errorf("the target is %s; token %s was shown, and the mark's ceiling was %s", target, l.highest, state.Ceiling)
	}
	if v, err := restore.Verify(t.Context(), stores, options()); err != nil || !v.Safe {
		t.Errorf("verify: %+v, %v", v.Findings, err)
	}
	if audited := ask[int](t, lockdb, `SELECT count(*) FROM operator_log WHERE operator = $1 AND action IN ('fast_forward', 'fast_forward_done')`, auto); audited != 2 {
		t.Errorf("%d records of it", audited)
	}
	s := l.serve(t, lockdb)
	l.stale(t, s, target)
	l.resumes(t, s, target)
	return target
}

// stops fails unless a service that still grants on the primary of before stops, and
// unless all that it was granted meanwhile lies at or below the target.
func (s *service) stops(t *testing.T, target lockstore.Token) {
	t.Helper()
	pgtest.Eventually(t, "who grants on the primary of before stops", func(ctx context.Context) (bool, error) {
		h, err := s.acquire(ctx, "left behind", others)
		if isClosed(err) {
			return true, nil
		}
		if err == nil {
			if h.token > target {
				t.Errorf("token %s, above the target %s", h.token, target)
			}
			_, err = s.locks.Release(ctx, h.lock(), h.token)
		}
		return false, err
	})
}

// A standby that lacks the last grants is promoted, and lock-server brings it forward
// by itself, while the primary of before still runs: above everything that was shown,
// and everybody from before is refused. Who grants on the primary of before stops by the
// mark; its own timeline is the old one, so it is left to a person.
//
// Clauses: K-7.10, K-7.1, K-7.4, K-7.6, K-7.8, K-1.3
// Mutation: drop the timeline's cases from forPerson in internal/restore; hear
// nothing in (*detector).tell.
func TestPromotedStandbyResumesByItself(t *testing.T) {
	t.Parallel()
	onMajors(t, func(t *testing.T, major int) {
		w := newWorld(t, major)
		w.markDir = t.TempDir()
		primary := newServer(t, "lockdb", major, nil)
		follower := primary.backup(t, major).standby(t)
		s := w.serve(t, primary.dsn)
		l := w.begins(t, s)
		follower.caughtUp(t)
		follower.cutOff(t)
		l.goesOn(t, s)
		behind := w.serve(t, primary.dsn)
		behind.releases(t, behind.holds(t, "left behind", others))
		follower.promote(t, place(follower.dsn).conn(t))
		l.closed(t, follower.dsn)
		behind.stops(t, l.byItself(t, follower.dsn))

		out, err := restore.AutoSafe(t.Context(), l.stores(t, primary.dsn), restore.AutoOptions{Operator: auto})
		if err != nil || out.Verdict != restore.AutoRefused || !slices.ContainsFunc(out.Why, func(why string) bool { return strings.Contains(why, "its timeline is the same") }) {
			t.Errorf("the primary of before: %+v, %v", out, err)
		}
		l.blind = true // the mark by itself
		l.withheld(t, primary.dsn)
	})
}

// The same after a restore to a moment. What is not known is a person's: with the mark
// away, or paydb, nothing is moved and lockdb grants nothing.
//
// Clauses: K-7.10, K-7.2, K-7.4, K-7.8, K-1.3
// Mutation: take an unavailable mark for none in forPerson and markEvidence.
func TestRestoredLockdbResumesByItself(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 16)
	w.markDir = t.TempDir()
	primary, archive := archived(t, "lockdb", 16)
	base := primary.backup(t, 16)
	s := w.serve(t, primary.dsn)
	l := w.begins(t, s)
	primary.restorePoint(t)
	l.goesOn(t, s)
	primary.stop(t, cluster.Immediate)
	restored := base.restore(t, archive)

	l.refusesByItself(t, restored.dsn, "outside_mark could not be read", func(*restore.Stores) (back func()) {
		files, err := filepath.Glob(filepath.Join(w.markDir, "*.json"))
		if err != nil || len(files) != 1 {
			t.Fatalf("%v, %v", files, err)
		}
		move := func(from, to string) {
			if err := os.Rename(from, to); err != nil {
				t.Fatal(err)
			}
		}
		move(files[0], files[0]+".away")
		return func() { move(files[0]+".away", files[0]) }
	})
	l.refusesByItself(t, restored.dsn, "account.fence could not be read", func(stores *restore.Stores) (back func()) {
		stores.Pay = nil
		return func() {}
	})
	l.closed(t, restored.dsn)
	l.byItself(t, restored.dsn)
}

// refusesByItself fails unless the policy leaves it to a person, and moves nothing.
func (l *life) refusesByItself(t *testing.T, lockdb place, why string, take func(*restore.Stores) (back func())) {
	t.Helper()
	stores := l.stores(t, lockdb)
	back := take(&stores)
	defer back()
	last := func() lockstore.Token {
		return ask[lockstore.Token](t, lockdb, `SELECT last_value FROM fencing_token_seq`)
	}
	before := last()
	out, err := restore.AutoSafe(t.Context(), stores, restore.AutoOptions{Operator: auto})
	if err != nil || out.Verdict != restore.AutoRefused || !slices.ContainsFunc(out.Why, func(said string) bool { return strings.Contains(said, why) }) {
		t.Errorf("%+v, %v; want it refused, since %s", out, err, why)
	}
	if after := last(); after != before {
		t.Errorf("the sequence stood at %s, and at %s after it", before, after)
	}
}
