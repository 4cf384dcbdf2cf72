package etcd_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	"github.com/dlockctl/dlockctl/internal/etcdtest"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/etcd"
	"github.com/dlockctl/dlockctl/internal/lockstore/locktest"
)

// control is a guard, what takes it out, and a race that then goes wrong.
type control struct {
	name string
	// without says which comparison, by a part of the name of its key, or which write
	// the slow client's transactions lack.
	without func(s *stage) string
	// play is one round, in one order; it returns what went wrong beside the history.
	play func(t *testing.T, s *stage) error
	want error
}

// errWrong is what a play returns that a history does not show.
var errWrong = errors.New("what must not be was seen")

// stage is where a control is played: a place of its own, and two clients.
type stage struct {
	opts     etcd.Options
	raw      *clientv3.Client
	slow     *locktest.Actor
	fast     *locktest.Actor
	operator *etcd.Store
	meddler  *meddler
	record   *locktest.Recorder
	key      string
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{opts: options(t), raw: etcdtest.Single(t).Client(t), meddler: &meddler{}, record: locktest.NewRecorder(), key: "k"}
	s.operator = open(t, s.opts)
	fast := open(t, s.opts)
	slow := open(t, etcd.Between(s.opts, s.meddler.between))
	s.slow = s.record.Actor(slow, "slow", session(t, slow, "slow", time.Hour))
	s.fast = s.record.Actor(fast, "fast", session(t, fast, "fast", time.Hour))
	return s
}

func (s *stage) name(kind, rest string) string { return s.opts.Prefix + kind + "/" + rest }

func (s *stage) acquire(t *testing.T, a *locktest.Actor) lockstore.GrantRef {
	t.Helper()
	grant, _, err := a.Acquire(t.Context(), s.key, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return grant
}

func (s *stage) revoke(t *testing.T, ref lockstore.GrantRef) {
	t.Helper()
	if err := s.record.Actor(s.operator, "operator", "").Revoke(t.Context(), ref); err != nil {
		t.Fatal(err)
	}
}

// during does one thing of the slow client's, stops it before the cluster gets the
// change, and lets something else happen meanwhile.
func (s *stage) during(t *testing.T, slow func() error, meanwhile func()) error {
	t.Helper()
	reached, goOn := s.meddler.stop()
	var group errgroup.Group
	group.Go(slow)
	select {
	case <-reached:
	case <-time.After(time.Minute):
		t.Fatal("the slow client never asked for a change")
	}
	meanwhile()
	close(goOn)
	return group.Wait()
}

// Each guard matters: with it the race is explained, without it it is not.
//
// Clauses: K-2.2, K-2.3, K-2.6, K-2.7, K-3.1, K-3.4, K-3.5, K-7.4, K-10.1
// Mutation: each row takes its guard out by itself; accept everything in locktest's
// model and no row of a history is caught.
func TestControls(t *testing.T) {
	t.Parallel()
	for _, c := range append(holderControls(), operatorControls()...) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, off := range []bool{false, true} {
				s := newStage(t)
				if off {
					s.meddler.without(c.without(s))
				}
				err := errors.Join(c.play(t, s), locktest.Check(s.record.History(), rules()).Err)
				switch {
				case !off && err != nil:
					t.Errorf("with the guard: %v: %+v", err, s.record.History())
				case off && s.meddler.taken.Load() == 0:
					t.Error("the guard was never taken out")
				case off && !errors.Is(err, c.want):
					t.Errorf("without the guard: %v, want %v: %+v", err, c.want, s.record.History())
				}
			}
		})
	}
}

func holderControls() []control {
	lock := func(s *stage) string { return "compare " + s.name("lock", "") }
	return []control{
		{
			name: "release deletes its own token's grant alone", without: lock, want: locktest.ErrNotLinearizable,
			play: func(t *testing.T, s *stage) error {
				old := s.acquire(t, s.slow)
				s.revoke(t, old)
				s.acquire(t, s.fast)
				return s.slow.Release(t.Context(), old)
			},
		},
		{
			name: "renew confirms its own token's grant alone", without: lock, want: locktest.ErrNotLinearizable,
			play: func(t *testing.T, s *stage) error {
				old := s.acquire(t, s.slow)
				s.revoke(t, old)
				s.acquire(t, s.fast)
				_, err := s.slow.Renew(t.Context(), old, time.Minute)
				return err
			},
		},
		{
			name: "a free key is still free", without: lock, want: locktest.ErrNotLinearizable,
			play: func(t *testing.T, s *stage) error {
				return s.during(t, func() error {
					_, _, err := s.slow.Acquire(t.Context(), s.key, time.Minute)
					return err
				}, func() { s.acquire(t, s.fast) })
			},
		},
		{
			name: "re-entry replaces what it saw", without: lock, want: locktest.ErrNotLinearizable,
			play: func(t *testing.T, s *stage) error {
				old := s.acquire(t, s.slow)
				s.meddler.after(1) // the first finds the key held by itself
				return s.during(t, func() error {
					_, _, err := s.slow.Acquire(t.Context(), s.key, time.Minute)
					return err
				}, func() {
					s.revoke(t, old)
					s.acquire(t, s.fast)
				})
			},
		},
		{
			name: "re-entry writes the key, and so has a new token", want: locktest.ErrNotLinearizable,
			without: func(s *stage) string { return "put " + s.name("lock", "") },
			play: func(t *testing.T, s *stage) error {
				s.meddler.after(1)
				s.acquire(t, s.slow)
				again := s.acquire(t, s.slow)
				_, err := s.slow.Renew(t.Context(), again, time.Minute)
				return err
			},
		},
		{
			name: "a lock is taken over from a session that is over alone", want: locktest.ErrNotLinearizable,
			without: func(s *stage) string { return "compare " + s.name("alive", "") },
			play: func(t *testing.T, s *stage) error {
				held := s.acquire(t, s.fast)
				s.meddler.after(1) // the first finds the key held
				life := s.hide(t, s.fast.Session)
				err := s.during(t, func() error {
					_, _, err := s.slow.Acquire(t.Context(), s.key, time.Minute)
					return err
				}, func() {
					if _, err := s.raw.Put(t.Context(), string(life.Key), string(life.Value), clientv3.WithLease(clientv3.LeaseID(life.Lease))); err != nil {
						t.Fatal(err)
					}
				})
				_, renewed := s.fast.Renew(t.Context(), held, time.Minute)
				return errors.Join(err, renewed)
			},
		},
		{
			name: "nothing is granted under a session that is over", want: locktest.ErrNotLinearizable,
			without: func(s *stage) string { return "compare " + s.name("alive", "") },
			play: func(t *testing.T, s *stage) error {
				err := s.during(t, func() error {
					_, _, err := s.slow.Acquire(t.Context(), s.key, time.Minute)
					return err
				}, func() { s.end(t, s.slow.Session) })
				s.acquire(t, s.fast)
				if errors.Is(err, lockstore.ErrSessionLost) {
					return nil
				}
				return err
			},
		},
		{
			name: "a session that is over does not come back", want: errWrong,
			without: func(s *stage) string { return "compare " + s.name("alive", "") },
			play: func(t *testing.T, s *stage) error {
				var heartbeat error
				err := s.during(t, func() error { // for longer, and so onto another lease
					_, heartbeat = s.slow.Store.Heartbeat(t.Context(), s.slow.Session, 2*time.Hour)
					return nil
				}, func() { s.end(t, s.slow.Session) })
				if !errors.Is(heartbeat, lockstore.ErrSessionLost) {
					err = fmt.Errorf("%w: a heartbeat of an ended session: %w", errWrong, heartbeat)
				}
				return err
			},
		},
		{
			name: "a heartbeat finds its session on the lease", want: errWrong,
			without: func(s *stage) string { return "compare " + s.name("alive", "") },
			play: func(t *testing.T, s *stage) error {
				// Ended by somebody who did not come to end the lease.
				if _, err := s.raw.Delete(t.Context(), s.name("alive", string(s.slow.Session))); err != nil {
					t.Fatal(err)
				}
				if _, err := s.slow.Store.Heartbeat(t.Context(), s.slow.Session, time.Minute); !errors.Is(err, lockstore.ErrSessionLost) {
					return fmt.Errorf("%w: a heartbeat of an ended session: %w", errWrong, err)
				}
				return nil
			},
		},
		{
			name: "nothing is granted behind a closed gate", want: errWrong,
			without: func(s *stage) string { return "compare " + s.name("meta", "gate") },
			play: func(t *testing.T, s *stage) error {
				var closed *lockstore.GrantsClosedError
				err := s.during(t, func() error {
					_, err := s.slow.Store.Acquire(t.Context(), lockstore.AcquireParams{Key: s.key, Owner: "slow", Session: s.slow.Session, TTL: time.Minute})
					return err
				}, func() {
					if _, err := s.raw.Put(t.Context(), s.name("meta", "gate"), `{"closed_by":"erin","closed_reason":"restore"}`); err != nil {
						t.Fatal(err)
					}
				})
				if !errors.As(err, &closed) || !strings.Contains(closed.Reason, "erin") {
					return fmt.Errorf("%w: behind a closed gate: %w", errWrong, err)
				}
				return nil
			},
		},
	}
}

func (s *stage) end(t *testing.T, id lockstore.SessionID) {
	t.Helper()
	if _, err := s.operator.EndSession(t.Context(), id); err != nil {
		t.Fatal(err)
	}
}

// hide takes the life of a session away, whose lease goes on.
func (s *stage) hide(t *testing.T, id lockstore.SessionID) *mvccpb.KeyValue {
	t.Helper()
	got, err := s.raw.Delete(t.Context(), s.name("alive", string(id)), clientv3.WithPrevKV())
	if err != nil || len(got.PrevKvs) != 1 {
		t.Fatalf("hide a session: %+v, %v", got, err)
	}
	return got.PrevKvs[0]
}

// operatorControls have the slow client revoke.
func operatorControls() []control {
	revoke := func(t *testing.T, s *stage, params lockstore.RevokeParams) func() error {
		params.Operator, params.Reason = "erin", "stuck"
		return func() error {
			_, err := s.slow.Store.Revoke(t.Context(), params)
			return err
		}
	}
	return []control{
		{
			name: "revoke deletes the grant that was seen alone", want: locktest.ErrNotLinearizable,
			without: func(s *stage) string { return "compare " + s.name("lock", "") },
			play: func(t *testing.T, s *stage) error {
				seen := s.acquire(t, s.fast)
				var again lockstore.GrantRef
				err := s.during(t, func() error { return s.slow.Revoke(t.Context(), seen) }, func() { again = s.acquire(t, s.fast) })
				_, renewed := s.fast.Renew(t.Context(), again, time.Minute)
				return errors.Join(err, renewed)
			},
		},
		{
			name: "an audit record follows the one before", want: errWrong,
			without: func(s *stage) string { return "compare " + s.name("meta", "audit") },
			play: func(t *testing.T, s *stage) error {
				seen := s.acquire(t, s.fast)
				err := s.during(t, revoke(t, s, lockstore.RevokeParams{Key: s.key, Token: seen.Token}), func() {
					s.key = "another"
					s.revoke(t, s.acquire(t, s.fast))
				})
				return errors.Join(err, s.audited(t, 2))
			},
		},
		{
			name: "what a session acquires while it is ended has an audit record", want: errWrong,
			without: func(s *stage) string { return "compare " + s.name("held", "") },
			play: func(t *testing.T, s *stage) error {
				seen := s.acquire(t, s.fast)
				err := s.during(t, revoke(t, s, lockstore.RevokeParams{Key: s.key, Token: seen.Token, EndSession: true}), func() {
					s.key = "another"
					s.acquire(t, s.fast)
				})
				return errors.Join(err, s.audited(t, 2))
			},
		},
		{
			name: "a bulk revoke takes what was seen alone", want: errWrong,
			without: func(s *stage) string { return "compare " + s.name("lock", "") },
			play: func(t *testing.T, s *stage) error {
				old := s.acquire(t, s.fast)
				var outcomes []lockstore.LockOutcome
				err := s.during(t, func() (err error) {
					outcomes, err = s.slow.Store.RevokeMany(t.Context(), lockstore.RevokeManyParams{Filter: lockstore.Filter{Owner: "fast"}, Operator: "erin", Reason: "stuck", Expect: 1})
					return err
				}, func() { s.acquire(t, s.fast) })
				if err == nil && (len(outcomes) != 1 || outcomes[0].Token == old.Token) {
					err = fmt.Errorf("%w: revoked %+v, when the token had moved on from %s", errWrong, outcomes, old.Token)
				}
				return err
			},
		},
	}
}

// audited wants so many audit records, without a finding.
func (s *stage) audited(t *testing.T, records int64) error {
	t.Helper()
	report, err := s.operator.VerifyAudit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if report.Revocations != records || len(report.Findings) > 0 {
		return fmt.Errorf("%w: the audit is %+v, want %d revocations without a finding", errWrong, report, records)
	}
	return nil
}
