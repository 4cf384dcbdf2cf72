package rewind_test

import (
	"testing"

	"github.com/dlockctl/dlockctl/internal/devenv/cluster"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
	"github.com/dlockctl/dlockctl/internal/restore"
)

// A lockdb that is restored to a moment, from a base backup and archived WAL, has
// forgotten what it issued since. It grants nobody anything; with its gate's guard
// out, the last token comes again and its first holder pays. After a fast-forward no
// token from before comes again, and everybody from before is refused at the account
// and at the rail, those included whose lease came back with the restore.
//
// Clauses: K-7.1, K-7.2, K-7.3, K-7.4, K-7.5, K-7.6, K-7.8, K-1.3
// Mutation: compare no timeline in lock_gate_check; leave void out of advance; a margin of 0.
func TestPointInTimeRestore(t *testing.T) {
	t.Parallel()
	onMajors(t, func(t *testing.T, major int) {
		w := newWorld(t, major)
		primary, archive := archived(t, "lockdb", major)
		s := w.serve(t, primary.dsn)
		l := w.begins(t, s)
		base := primary.backup(t, major)
		s.works(t, "worker", others, 2) // what the backup needs the WAL for
		primary.restorePoint(t)
		l.goesOn(t, s)
		primary.stop(t, cluster.Immediate)

		without := &life{world: w.fork(t), keeper: l.keeper, idle: l.idle}
		restored := base.restore(t, archive)
		without.closed(t, restored.dsn)
		place(restored.dsn).exec(t, noteHere)
		without.comesBack(t, restored.dsn)
		without.damage(t, restored.dsn)

		restored = base.restore(t, archive)
		l.closed(t, restored.dsn)
		l.rescued(t, restored.dsn, "timeline", "paydb_ahead")
		audited := ask[int](t, restored.dsn, `SELECT count(*) FROM lock_revocation WHERE prev_token = $1 AND operator = 'erin'`, int64(l.keeper.token))
		if audited != 1 {
			t.Errorf("%d audit rows for the lease that came back and was voided", audited)
		}
	})
}

// comesBack fails unless the lease of a restored holder is alive again.
func (l *life) comesBack(t *testing.T, lockdb place) {
	t.Helper()
	s := l.serve(t, lockdb)
	defer s.close()
	if _, err := s.locks.Renew(t.Context(), l.keeper.lock(), l.keeper.token, 3600e9); err != nil {
		t.Errorf("the restored lease: %v", err)
	}
}

// A standby that had not received the last grants is promoted: the same. It grants
// nothing from its first statement on, to a connection from before the promotion as
// well; and as long as the old primary still grants, no fast-forward begins.
//
// Clauses: K-7.1, K-7.2, K-7.4, K-7.6, K-7.8, K-1.3
// Mutation: drop Granting of the old primary from refuse.
func TestAsynchronousStandbyIsPromoted(t *testing.T) {
	t.Parallel()
	onMajors(t, func(t *testing.T, major int) {
		w := newWorld(t, major)
		primary := newServer(t, "lockdb", major, nil)
		base := primary.backup(t, major)
		first, second := base.standby(t), base.standby(t)
		s := w.serve(t, primary.dsn)
		l := w.begins(t, s)
		for _, follower := range []*standby{first, second} {
			follower.caughtUp(t)
		}
		first.cutOff(t)
		second.cutOff(t)
		l.goesOn(t, s)

		early := place(second.dsn).conn(t)
		if !value[bool](t, early, `SELECT pg_is_in_recovery()`) {
			t.Fatal("the standby is none")
		}
		for _, follower := range []*standby{second, first} {
			follower.promote(t, place(follower.dsn).conn(t))
			if follower == second {
				closedTo(t, early, "the first statement after the promotion", verbatim(t))
			}
		}
		without := &life{world: w.fork(t), keeper: l.keeper, idle: l.idle}
		without.closed(t, first.dsn)
		place(first.dsn).exec(t, noteHere)
		without.damage(t, first.dsn)

		l.closed(t, second.dsn)
		stores := l.stores(t, second.dsn)
		old, err := stores.Lock.(*postgres.Rewinder).OldPrimary(t.Context(), place(primary.dsn).config(t, "t_auditor"))
		if err != nil {
			t.Fatal(err)
		}
		stores.Old = &old
		if result, err := restore.FastForward(t.Context(), stores, options()); err != nil || result.Outcome != restore.RefusedTraffic || old.Last != l.highest {
			t.Errorf("beside an old primary at %s that grants: %s, %v", old.Last, result.Outcome, err)
		}
		l.closed(t, second.dsn)
		primary.stop(t, cluster.Immediate)
		l.rescued(t, second.dsn, "timeline", "paydb_ahead")
	})
}

// A plain copy of a stopped data folder keeps instance and timeline, so that its gate
// is open: to who looks at nothing else it issues tokens again at once. The outside
// mark tells.
//
// Clauses: K-7.6, K-7.2, K-7.8, K-1.3
// Mutation: fire at nothing in (*detector).compare; leave StepFloorAccount out of (*run).steps.
func TestPlainCopyOfDataFolder(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 16)
	w.markDir = t.TempDir()
	primary := newServer(t, "lockdb", 16, nil)
	s := w.serve(t, primary.dsn)
	l := w.begins(t, s)
	s.close()
	primary.stop(t, cluster.Fast)
	first, second := primary.copyStopped(t, 16, nil), primary.copyStopped(t, 16, nil)
	primary.start(t)
	l.goesOn(t, w.serve(t, primary.dsn))
	primary.stop(t, cluster.Fast)

	without := &life{world: w.fork(t), keeper: l.keeper, idle: l.idle}
	first.start(t)
	place(first.dsn).exec(t, `UPDATE outside_mark SET kept = false, kept_since = NULL`)
	without.damage(t, first.dsn)

	second.start(t)
	l.blind = true // the mark by itself; paydb by itself: TestLogicalReplicaTakesOver
	l.withheld(t, second.dsn)
	l.blind = false
	l.rescued(t, second.dsn, "paydb_ahead", "mark_ahead")
}
